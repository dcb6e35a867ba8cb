"""The fake driver: instances without processes, with configurable build times and failure rates."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Sequence

from zonesched.compute.driver import DriverSettings
from zonesched.compute.machine import Built, Destroyed, DriverEvent, Failed, Key, Wanted
from zonesched.seams import Clock

BUILD_FAILED = "build_failed"


class FakeDriver:
    """Builds take `build_seconds`; whether one fails depends on seed, uuid and attempt alone.

    Instances that the zone lists as active count as running: fake instances outlive their agent.
    """

    def __init__(self, settings: DriverSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._due: list[tuple[float, Key]] = []
        self._building: set[Key] = set()
        self._running: set[Key] = set()
        self._happened: list[DriverEvent] = []

    def found(self) -> Sequence[Key]:
        return ()

    def spawn(self, wanted: Wanted) -> None:
        key = wanted.key
        if key in self._running or key in self._building:
            return
        if wanted.is_active:
            self._running.add(key)
            self._happened.append(Built(key))
            return
        self._building.add(key)
        heapq.heappush(self._due, (self._clock.monotonic() + self._settings.build_seconds, key))

    def destroy(self, key: Key) -> None:
        self._building.discard(key)
        self._running.discard(key)
        self._happened.append(Destroyed(key))

    def poll(self) -> Sequence[DriverEvent]:
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            if key in self._building:
                self._building.discard(key)
                self._happened.append(self._outcome(key))
        happened, self._happened = self._happened, []
        return happened

    def next_event_s(self) -> float:
        if self._happened:
            return 0.0
        if not self._due:
            return math.inf
        return max(0.0, self._due[0][0] - self._clock.monotonic())

    def _outcome(self, key: Key) -> DriverEvent:
        if _chance(self._settings.seed, key) < self._settings.failure_rate:
            return Failed(key, BUILD_FAILED)
        self._running.add(key)
        return Built(key)


def _chance(seed: str, key: Key) -> float:
    """Return a pseudo-random number from 0 to 1 (exclusive), always the same for the same attempt."""
    digest = hashlib.sha256(f"{seed}/{key.uuid}/{key.attempt}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
