"""Turns of a caller's requests: few of them compute at the same time, the others of the same caller sleep.

A process runs one thread of Python at a time, so requests that compute at the same time share one processor.
Without turns a caller with many requests would get as many shares, and every other caller's request would
take as many times longer. A request that waits for child zones or for a commit gives its turn to the next
one of its caller. It continues at once when its wait is over, whoever computes then: it may hold a lock that
those need. Before long work, where it holds none, it calls `give_way`.

A large request, as a select of thousands of instances, computes for a hundred milliseconds and more. One of a
caller's large requests computes at a time, beside its smaller ones.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class Turns:
    """At most `at_once` requests of each caller compute; thread-safe.

    Turns are taken in order of arrival, requests that have begun before new ones. `large`: the turns of large
    requests, which count by themselves.
    """

    def __init__(self, at_once: int, large: Turns | None = None) -> None:
        self._at_once = at_once
        self.large = large
        self._lock = threading.Lock()
        self._computing: Counter[Hashable] = Counter()
        self._asleep: dict[Hashable, deque[threading.Lock]] = {}
        self._begun: dict[Hashable, deque[threading.Lock]] = {}

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
            gate = _add_gate(self._asleep, caller)
        # Released by `give_back`, together with the turn.
        gate.acquire()

    def take_again(self, caller: Hashable) -> None:
        """Take a turn at once, also above `at_once`: a request that has begun may hold locks for others."""
        with self._lock:
            self._computing[caller] += 1

    def give_way(self, caller: Hashable) -> None:
        """Give the turn back until no more than `at_once` requests compute with this one."""
        with self._lock:
            if self._computing[caller] <= self._at_once:
                return
            self._computing[caller] -= 1
            gate = _add_gate(self._begun, caller)
        gate.acquire()

    def give_back(self, caller: Hashable) -> None:
        """Give the turn to the caller's next request, if one waits."""
        with self._lock:
            for line in (self._begun, self._asleep):
                if caller in line and self._computing[caller] <= self._at_once:
                    _open_gate(line, caller)
                    return
            self._computing[caller] -= 1
            if not self._computing[caller]:
                del self._computing[caller]


def _add_gate(line: dict[Hashable, deque[threading.Lock]], caller: Hashable) -> threading.Lock:
    """Return a closed gate at the end of the caller's line."""
    gate = threading.Lock()
    gate.acquire()
    line.setdefault(caller, deque()).append(gate)
    return gate


def _open_gate(line: dict[Hashable, deque[threading.Lock]], caller: Hashable) -> None:
    gates = line[caller]
    gates.popleft().release()
    if not gates:
        del line[caller]


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


def become_large() -> None:
    """Count this thread's request among its caller's large ones, and wait for a turn of these.

    Only a thread that holds no lock may call it.
    """
    turn = _current.get()
    if turn is None or turn.turns.large is None:
        return
    end()
    turn.turns.large.begin(turn.caller)


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


def give_way() -> None:
    """Wait for a turn where this request continued beside more of its caller's than may compute together.

    Only a thread that holds no lock may call it: those that it waits for may need the lock.
    """
    turn = _current.get()
    if turn is not None:
        turn.turns.give_way(turn.caller)
