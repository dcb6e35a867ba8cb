"""Turns of a caller's requests: few of them compute at the same time, the others of the same caller sleep.

A process runs one thread of Python at a time, so requests that compute at the same time share one processor.
Without turns a caller with many requests would get as many shares, and every other caller's request would
take as many times longer. A request that waits for child zones or for a commit gives its turn to the next
one of its caller. It continues at once when its wait is over, whoever computes then: it may hold a lock that
those need.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class Turns:
    """At most `at_once` requests of each caller compute; thread-safe. Turns are taken in order of arrival."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._computing: Counter[Hashable] = Counter()
        self._asleep: dict[Hashable, deque[threading.Lock]] = {}

    def begin(self, caller: Hashable) -> None:
        """Wait for a turn of this caller; the thread holds it until it calls `end`."""
        self.take(caller)
        _current.set(Turn(self, caller))

    @contextmanager
    def of(self, caller: Hashable) -> Iterator[None]:
        """Wait for a turn of this caller, and hold it until the block ends."""
        self.begin(caller)
        try:
            yield
        finally:
            end()

    def take(self, caller: Hashable) -> None:
        """Wait for a turn."""
        with self._lock:
            if self._computing[caller] < self._at_once:
                self._computing[caller] += 1
                return
            gate = threading.Lock()
            gate.acquire()
            self._asleep.setdefault(caller, deque()).append(gate)
        # Released by `give_back`, together with the turn.
        gate.acquire()

    def take_again(self, caller: Hashable) -> None:
        """Take a turn at once, also above `at_once`: a request that has begun may hold locks for others."""
        with self._lock:
            self._computing[caller] += 1

    def give_back(self, caller: Hashable) -> None:
        """Give the turn to the caller's next request, if one waits."""
        with self._lock:
            asleep = self._asleep.get(caller)
            if asleep and self._computing[caller] <= self._at_once:
                asleep.popleft().release()
                if not asleep:
                    del self._asleep[caller]
                return
            self._computing[caller] -= 1
            if not self._computing[caller]:
                del self._computing[caller]


@dataclass(frozen=True)
class Turn:
    """The turn of a caller's request; threads that work for the request take turns of this caller too."""

    turns: Turns
    caller: Hashable


_current: ContextVar[Turn | None] = ContextVar("turn", default=None)


def end() -> None:
    """Give back the turn of this thread, if it holds one."""
    turn = _current.get()
    if turn is not None:
        _current.set(None)
        turn.turns.give_back(turn.caller)


def current() -> Turn | None:
    """The turn of the request that this thread works for; None for work of the zone itself."""
    return _current.get()


@contextmanager
def within(turn: Turn | None) -> Iterator[None]:
    """Take a turn of this one's caller for the block, which does a part of its request's work."""
    if turn is None:
        yield
        return
    with turn.turns.of(turn.caller):
        yield


@contextmanager
def waiting() -> Iterator[None]:
    """Let another request of the same caller compute while this thread waits for others in the block."""
    turn = _current.get()
    if turn is None:
        yield
        return
    before = _current.set(None)
    turn.turns.give_back(turn.caller)
    try:
        yield
    finally:
        turn.turns.take_again(turn.caller)
        _current.reset(before)
