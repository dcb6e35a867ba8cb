"""Rate limiters and cached counts by key, in this process's memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from zonesched.seams import Clock

COUNT_S = 10.0
"""Seconds that a count is cached before it is read again."""

MAX_KEYS = 10_000
"""Limit of keys; above it the oldest key is evicted and its use starts again at zero."""


class RateLimiter:
    """Token buckets by key: each refills evenly over a minute.

    A `take` may exceed the bucket: the next one waits until the bucket has refilled.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, key: str, per_minute: int, amount: int = 1) -> int:
        """Take `amount` tokens; return 0, or the whole seconds until the key may take any."""
        with self._lock:
            taken = self._taken(key, per_minute)
            if taken >= per_minute:
                return max(1, math.ceil((1 + taken - per_minute) * 60 / per_minute))
            self._known.pop(key, None)
            self._known[key] = (taken + amount, self._clock.monotonic())
            if len(self._known) > MAX_KEYS:
                del self._known[next(iter(self._known))]
            return 0

    def used(self, key: str, per_minute: int) -> int:
        """Return the tokens of the bucket that are taken now."""
        with self._lock:
            return math.ceil(self._taken(key, per_minute))

    def _taken(self, key: str, per_minute: int) -> float:
        now = self._clock.monotonic()
        taken, at = self._known.get(key, (0.0, now))
        return max(0.0, taken - (now - at) * per_minute / 60)


class CachedCounts:
    """Counts by key: read from the database every `COUNT_S`, plus the admissions since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, float]] = {}

    def add(self, key: str, more: int, most: int, count: Callable[[], int]) -> bool:
        """Tell whether the limit `most` admits `more`, and add them; `count` reads the present number."""
        now = self._clock.monotonic()
        with self._lock:
            number, at = self._known.get(key, (0, -math.inf))
            if number + more <= most and now - at < COUNT_S:
                self._known[key] = (number + more, at)
                return True
        number = count()
        with self._lock:
            admits = number + more <= most
            self._known.pop(key, None)
            self._known[key] = (number + more * admits, now)
            if len(self._known) > MAX_KEYS:
                del self._known[next(iter(self._known))]
        return admits
