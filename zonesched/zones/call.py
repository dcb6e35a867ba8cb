"""A call to a child zone, its whole answer, and the faults of a call without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from zonesched.errors import ChildUnreachable
from zonesched.model.work_deadline import always

Take = Callable[[int, float], None]
"""(bytes, seconds left): finds room for an answer. Raises ChildUnreachable."""


def takes_all(size: int, timeout_s: float) -> None:
    """Find room for any answer."""


@dataclass(frozen=True)
class Call:
    """One request. `headers` may hold credentials; `body` is empty where there is none.

    `is_wanted` tells whether somebody still waits for the answer. `take` is called with the size of the
    answer and the seconds left, before it is read; it may wait, and raises ChildUnreachable.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    is_wanted: Callable[[], bool] = always
    take: Take = takes_all

    def __repr__(self) -> str:
        return f"Call({self.method} {self.url})"


@dataclass(frozen=True)
class BoundCall:
    """A call, and the largest body that is read of its answer."""

    call: Call
    max_bytes: int


@dataclass(frozen=True)
class Reply:
    """One whole answer, not validated in any way."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Rest(Protocol):
    """The rest of a call, which a thread has to wait for."""

    def finish(self, timeout_s: float) -> Reply:
        """Return the whole answer. Raises ChildUnreachable as `Transport.send`."""

    def drop(self) -> None:
        """Free what the call holds, unless `finish` was called."""


def late() -> ChildUnreachable:
    """Return the fault of a call whose time is over."""
    return ChildUnreachable("The child zone did not answer in time.", code="child_timeout")


def unreachable() -> ChildUnreachable:
    """Return the fault of a call that no connection carries."""
    return ChildUnreachable("The child zone cannot be reached.", code="child_unreachable")


def not_secured() -> ChildUnreachable:
    """Return the fault of a call whose connection could not be secured by TLS."""
    return ChildUnreachable("The child zone cannot be reached by TLS.", code="child_tls_failed")


def invalid(why: str) -> ChildUnreachable:
    """Return the fault of an answer that breaks a rule of the transport."""
    return ChildUnreachable(f"The answer of the child zone {why}.", code="child_invalid_answer")
