"""The request and boot that a thread works for, as ids on each log line and each call to a child.

The id of a user's request follows its boot down the tree in the header `X-Request-Id` of every call, and
reaches the agents in the rows of each zone. Only readers of logs use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

HEADER = "X-Request-Id"
ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Accepted form of a caller's request id; an id of any other form is replaced."""


@dataclass(frozen=True)
class Trace:
    """The ids of a request and of a boot; "" where there is none."""

    request_id: str = ""
    reservation_id: str = ""


UNTRACED = Trace()
_current: ContextVar[Trace] = ContextVar("trace", default=UNTRACED)


def current() -> Trace:
    """Ids of the request and boot that this thread works for."""
    return _current.get()


def begin(request_id: str) -> None:
    """Record that this thread works for another request from now on."""
    _current.set(Trace(request_id))


def about(reservation_id: str) -> None:
    """Record that the current request of this thread is about this boot."""
    _current.set(Trace(_current.get().request_id, reservation_id))


@contextmanager
def within(trace: Trace) -> Iterator[None]:
    """Use `trace` as this thread's trace within the block."""
    before = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(before)
