"""Agents whose place others ask for, and how long this process has seen nothing new of each.

A process counts by its own monotonic time from the moment at which it first saw the last heartbeat in the
rows, which is when another agent asked. The time before does not count, nor does most of a longer time in
which the other one did not ask: while a zone, its database or the way to it was away, no agent could call,
and the first call afterwards may be the other one's. Nor does a clock that is set.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from zonesched.seams import Clock


@dataclass(frozen=True)
class _Seen:
    heartbeat_at: float
    """UTC, as in the row."""

    at: float
    """Monotonic seconds of the last time at which another agent asked."""

    silent_s: float


class Silences:
    """Last heartbeats of services whose place others ask for, each with how long this process has seen it.

    `longest_pause_s`: what counts at most of the time between two times at which another agent asks.
    """

    def __init__(self, clock: Clock, longest_pause_s: float) -> None:
        self._clock = clock
        self._longest_pause_s = longest_pause_s
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def seconds(self, service_id: str, heartbeat_at: float) -> float:
        """Return how long this process has known that the last heartbeat of a service is this one."""
        now = self._clock.monotonic()
        with self._lock:
            seen = self._seen.get(service_id)
            silent_s = 0.0
            if seen is not None and seen.heartbeat_at == heartbeat_at:
                silent_s = seen.silent_s + min(now - seen.at, self._longest_pause_s)
            self._seen[service_id] = _Seen(heartbeat_at, now, silent_s)
            return silent_s
