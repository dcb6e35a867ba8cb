"""Who has how much: rates and numbers by key, in this process's memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from zonesched.seams import Clock

COUNT_S = 10.0
"""Seconds that a number is believed before it is counted anew."""

MOST_KEYS = 10_000
"""Keys that are remembered; beyond it the one that came first is forgotten, to its favour."""


class RateLimiter:
    """What each key has taken of what it may have in a minute, which is given back evenly.

    What is taken may exceed that: the next has to wait until it is made up for.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, key: str, per_minute: int, amount: int = 1) -> int:
        """0 where the key may have it, else whole seconds until it may have anything."""
        with self._lock:
            taken = self._taken(key, per_minute)
            if taken >= per_minute:
                return max(1, math.ceil((1 + taken - per_minute) * 60 / per_minute))
            self._known.pop(key, None)
            self._known[key] = (taken + amount, self._clock.monotonic())
            if len(self._known) > MOST_KEYS:
                del self._known[next(iter(self._known))]
            return 0

    def used(self, key: str, per_minute: int) -> int:
        """How much of a minute's worth is not there now."""
        with self._lock:
            return math.ceil(self._taken(key, per_minute))

    def _taken(self, key: str, per_minute: int) -> float:
        now = self._clock.monotonic()
        taken, at = self._known.get(key, (0.0, now))
        return max(0.0, taken - (now - at) * per_minute / 60)


class CachedCounts:
    """Counts by key, read from the database now and then, plus what was admitted since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, float]] = {}

    def add(self, key: str, more: int, most: int, count: Callable[[], int]) -> bool:
        """Whether there is room for so many more, which then count; `count` gives the number as it is."""
        now = self._clock.monotonic()
        with self._lock:
            number, at = self._known.get(key, (0, -math.inf))
            if number + more <= most and now - at < COUNT_S:
                self._known[key] = (number + more, at)
                return True
        number = count()
        with self._lock:
            has_room = number + more <= most
            self._known.pop(key, None)
            self._known[key] = (number + more * has_room, now)
            if len(self._known) > MOST_KEYS:
                del self._known[next(iter(self._known))]
        return has_room
