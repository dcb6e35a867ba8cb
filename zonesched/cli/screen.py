"""Terminal that a command prints to: its width and its colours."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Terminal:
    """A terminal of `width` columns: tables are fitted to it."""

    width: int
    has_colours: bool = False


@dataclass(frozen=True)
class Unbounded:
    """A file or a pipe: every value is written whole, and nothing is coloured."""


Screen = Terminal | Unbounded


def standard_output() -> Screen:
    """Standard output as it is now. NO_COLOR (any value) and TERM=dumb turn colours off."""
    if not sys.stdout.isatty():
        return Unbounded()
    has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Terminal(shutil.get_terminal_size().columns, has_colours)
