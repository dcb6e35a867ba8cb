"""Agents whose place others ask for, and how long this process has seen nothing new of each.

A process counts by its own monotonic time from the moment at which it first saw the last heartbeat in the
rows, which is when another agent asked. The time before does not count, nor does most of a longer time in
which the other one did not ask: while a zone, its database or the way to it was away, no agent could call,
and the first call afterwards may be the other one's. Nor does a clock that is set, or a time in which the
database took no writes, such as on a full disk: no heartbeat could be written then.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from zonesched.seams import Clock
from zonesched.store.silent_agents import LastHeartbeat


@dataclass(frozen=True)
class _Seen:
    heartbeat: LastHeartbeat
    at: float
    """Monotonic seconds of the last time at which another agent asked."""

    silent_s: float


class Silences:
    """Last heartbeats of services whose place others ask for, each with how long this process has seen it.

    `longest_pause_s`: what counts at most of the time between two times at which another agent asks.
    """

    def __init__(self, clock: Clock, longest_pause_s: float) -> None:
        self._clock = clock
        self.longest_pause_s = longest_pause_s
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def seconds(self, service_id: str, heartbeat: LastHeartbeat) -> float:
        """Return how long this process has known that the last heartbeat of a service is this one."""
        with self._lock:
            return self._silent_s(service_id, heartbeat, self._clock.monotonic())

    def note(self, service_id: str, heartbeat: LastHeartbeat) -> None:
        """Note that another agent has asked, and that the database has taken a write since."""
        now = self._clock.monotonic()
        with self._lock:
            self._seen[service_id] = _Seen(heartbeat, now, self._silent_s(service_id, heartbeat, now))

    def forget(self, service_id: str) -> None:
        """Begin anew: a heartbeat of the service may have been lost."""
        with self._lock:
            self._seen.pop(service_id, None)

    def _silent_s(self, service_id: str, heartbeat: LastHeartbeat, now: float) -> float:
        seen = self._seen.get(service_id)
        if seen is None or seen.heartbeat != heartbeat:
            return 0.0
        return seen.silent_s + min(now - seen.at, self.longest_pause_s)
