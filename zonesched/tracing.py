"""Which request, and which boot, the work of a thread is for: on each log line, and on each call to a child.

The id of a user's request goes with its boot down the tree, as the header `X-Request-Id` of every call, and
with the rows of each zone to its agents. It means nothing to anybody but who reads logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

HEADER = "X-Request-Id"
ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Accepted form of an id from a caller; any other one is replaced."""


@dataclass(frozen=True)
class Trace:
    """A request's id and a boot's, "" where there is none."""

    request_id: str = ""
    reservation_id: str = ""


UNTRACED = Trace()
_current: ContextVar[Trace] = ContextVar("trace", default=UNTRACED)


def current() -> Trace:
    """Ids of the request and boot that this thread works for."""
    return _current.get()


def begin(request_id: str) -> None:
    """From now on this thread works for another request."""
    _current.set(Trace(request_id))


def about(reservation_id: str) -> None:
    """The request that this thread works for is about this boot."""
    _current.set(replace(_current.get(), reservation_id=reservation_id))


@contextmanager
def within(trace: Trace) -> Iterator[None]:
    """In this block the thread works for that."""
    before = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(before)
