"""Agents whose place others ask for, and how long this process has seen nothing new of each.

A process counts by its own monotonic time from the moment at which it first saw the last heartbeat in the
rows, which is when another agent asked. The time before does not count: while a zone or its database was
away, no agent could call, and the first call afterwards may be the other one's. Nor does a clock that is set.
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
    """Monotonic seconds."""


class Silences:
    """Last heartbeats of services whose place others ask for, each with when this process first saw it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def seconds(self, service_id: str, heartbeat_at: float) -> float:
        """Return how long this process has known that the last heartbeat of a service is this one."""
        now = self._clock.monotonic()
        with self._lock:
            seen = self._seen.get(service_id)
            if seen is None or seen.heartbeat_at != heartbeat_at:
                seen = self._seen[service_id] = _Seen(heartbeat_at, now)
            return now - seen.at
