"""Rate limiters and cached counts by key, in this process's memory."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from zonesched.seams import Clock

COUNT_S = 10.0
"""Seconds that a count is cached before it is read again."""

LONG_S = 0.1
"""A count that takes so long is not repeated for each request that is refused."""

REFUSED_S = 30.0
"""Longest time for which such a count is believed where it refuses."""

MAX_KEYS = 10_000
"""Limit of keys; above it the oldest key is evicted and its use starts again at zero."""


class RateLimiter:
    """Token buckets by key: each refills evenly over a minute, or over `period_s`.

    A `take` may exceed the bucket: the next one waits until the bucket has refilled.
    """

    def __init__(self, clock: Clock, period_s: int = 60) -> None:
        self._clock = clock
        self._period_s = period_s
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, key: str, most: int, amount: int = 1) -> int:
        """Take `amount` tokens; return 0, or the whole seconds until the key may take any."""
        with self._lock:
            taken = self._taken(key, most)
            if taken >= most:
                return max(1, math.ceil((1 + taken - most) * self._period_s / most))
            self._note(key, taken + amount)
            return 0

    def charge(self, key: str, most: int, amount: int = 1) -> None:
        """Take `amount` tokens for what was admitted already, also where others have emptied the bucket."""
        with self._lock:
            self._note(key, self._taken(key, most) + amount)

    def give_back(self, key: str, most: int, amount: int) -> None:
        """Return tokens to the bucket, up to those that are taken now."""
        with self._lock:
            if key in self._known:
                self._known[key] = (max(0.0, self._taken(key, most) - amount), self._clock.monotonic())

    def used(self, key: str, most: int) -> int:
        """Return the tokens of the bucket that are taken now."""
        with self._lock:
            return math.ceil(self._taken(key, most))

    def _note(self, key: str, taken: float) -> None:
        self._known.pop(key, None)
        self._known[key] = (taken, self._clock.monotonic())
        if len(self._known) > MAX_KEYS:
            del self._known[next(iter(self._known))]

    def _taken(self, key: str, most: int) -> float:
        now = self._clock.monotonic()
        taken, at = self._known.get(key, (0.0, now))
        return max(0.0, taken - (now - at) * most / self._period_s)


@dataclass(frozen=True)
class _Count:
    """A number with the admissions since; read again at `again_at`, where it refuses at `recounted_at`."""

    number: int
    again_at: float
    recounted_at: float


@dataclass(frozen=True)
class AddLock:
    """The lock of a number that several transactions add to at the same time.

    `add` waits for a count under way, `count` for those that add; each holds off the other until its
    transaction ends. So a count has all that was added before it.
    """

    add: Callable[[], None]
    count: Callable[[], None]


class CachedCounts:
    """Counts by key: read from the database every `COUNT_S`, plus the admissions since.

    A count that takes long is read less often, so that counting takes no more than `most_share` of the time.
    """

    def __init__(self, clock: Clock, most_share: float = 1.0) -> None:
        self._clock = clock
        self._most_share = most_share
        self._lock = threading.Lock()
        self._known: dict[str, _Count] = {}
        # Admissions that wait for their lock: no count has them.
        self._waiting: Counter[str] = Counter()

    def add(
        self, key: str, more: int, limit: int, count: Callable[[], int], lock: AddLock | None = None
    ) -> bool:
        """Tell whether the limit `limit` admits `more`, and add them; `count` reads the present number.

        Without a `lock`, a count does not have what other transactions add at the same time.
        """
        now = self._clock.monotonic()
        cached = self._add_to_cached(key, more, limit, now, is_waiting=lock is not None)
        if cached is None:
            if lock is not None:
                lock.count()
                now = self._clock.monotonic()
            return self._count(key, more, limit, count, now)
        if cached and lock is not None:
            try:
                lock.add()
            finally:
                self._end_wait(key, more)
        return cached

    def _add_to_cached(self, key: str, more: int, limit: int, now: float, *, is_waiting: bool) -> bool | None:
        """Tell whether the cached number admits `more`, and add them; None where it has to be read."""
        with self._lock:
            known = self._known.get(key)
            if known is not None and known.number + more <= limit and now < known.again_at:
                self._known[key] = _Count(known.number + more, known.again_at, known.recounted_at)
                if is_waiting:
                    self._waiting[key] += more
                return True
            is_full = known is not None and known.number + more > limit and now < known.recounted_at
        return False if is_full else None

    def _end_wait(self, key: str, more: int) -> None:
        with self._lock:
            self._waiting[key] -= more
            if not self._waiting[key]:
                del self._waiting[key]

    def _count(self, key: str, more: int, limit: int, count: Callable[[], int], now: float) -> bool:
        number = count()
        took_s = self._clock.monotonic() - now
        pause_s = took_s / self._most_share
        with self._lock:
            number += self._waiting[key]
            admits = number + more <= limit
            self._known.pop(key, None)
            self._known[key] = _Count(
                number + more * admits,
                again_at=now + max(COUNT_S, pause_s),
                recounted_at=now + (min(REFUSED_S, pause_s) if took_s >= LONG_S else 0.0),
            )
            if len(self._known) > MAX_KEYS:
                del self._known[next(iter(self._known))]
        return admits
