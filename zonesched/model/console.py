"""Console output of an instance, as an agent brings it and as its owner reads it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

MAX_CONSOLE_BYTES = 32 * 1024
"""The newest bytes of an output that are read; its text has no more characters."""

CONSOLE_TRAIT = "COMPUTE_CONSOLE"
"""Trait of hosts whose driver can read consoles."""


class ConsoleState(enum.Enum):
    """Outcome of reading a console.

    LATE: no answer in time. NOT_THERE: the instance is on no host now. UNSUPPORTED: its driver cannot read
    consoles; UNKNOWN_CALL: a zone on the way is of a version that cannot.
    """

    READ = "read"
    LATE = "late"
    NOT_THERE = "not_there"
    UNSUPPORTED = "unsupported"
    UNKNOWN_CALL = "unknown_call"


@dataclass(frozen=True)
class ConsoleAnswer:
    """Result of reading a console; `output` is "" unless READ."""

    state: ConsoleState
    output: str = ""


@dataclass(frozen=True)
class ReadConsole:
    """Read the console output of a server: its last `lines`, or all of it."""

    lines: int | None = None


def text_of(newest: bytes) -> str:
    """Decode the newest bytes of an output; NUL, and what is no UTF-8, becomes U+FFFD."""
    return newest[-MAX_CONSOLE_BYTES:].decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def last_lines(output: str, lines: int | None) -> str:
    """Return the last lines of an output, without the break after the last one; None is all of the output."""
    if lines is None:
        return output
    return "\n".join(output.removesuffix("\n").split("\n")[-lines:]) if lines else ""
