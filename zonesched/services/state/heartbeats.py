"""Heartbeats, gathered by each process and written together.

Any call of an agent is a heartbeat. A process writes heartbeats with a delay, hundreds of services in one
statement, and only some heartbeats of a service that calls often, so that very many agents do not load the
database. Heartbeats lost with a process do no harm: the agent calls again long before it counts as down.
"""

from __future__ import annotations

import threading

from zonesched.seams import Clock
from zonesched.store import claims, services
from zonesched.store.store import Store

WRITE_PAUSE_S = 1.0
"""Seconds between two writes, unless `service_down_time` asks for more."""

WRITES_PER_DOWN_TIME = 6
"""Writes per `service_down_time` for a service that keeps calling."""


class Heartbeats:
    """Services that called this process and whose heartbeats are not written yet."""

    def __init__(self, store: Store, clock: Clock, service_down_time_s: float) -> None:
        self.pause_s = min(WRITE_PAUSE_S, service_down_time_s / 10)
        self._store = store
        self._clock = clock
        self._fresh_s = service_down_time_s / WRITES_PER_DOWN_TIME
        self._lock = threading.Lock()
        self._heard: set[str] = set()
        self._written_at: dict[str, float] = {}

    def note(self, service_id: str) -> None:
        """Note a call of a service that the store knows."""
        with self._lock:
            if not self._is_fresh(service_id, self._clock.now()):
                self._heard.add(service_id)

    def write(self) -> float:
        """Write the heartbeats, or drop them if that fails; return the pause until the next time."""
        now = self._clock.now()
        with self._lock:
            heard, self._heard = self._heard, set()
            self._written_at = {id: at for id, at in self._written_at.items() if self._is_fresh(id, now)}
        for some in claims.chunks(sorted(heard)):
            self._store.write(lambda tx, ids=some: services.note_heartbeats(tx, ids, now))  # type: ignore[misc]
            with self._lock:
                self._written_at |= dict.fromkeys(some, now)
        return self.pause_s

    def _is_fresh(self, service_id: str, now: float) -> bool:
        # After a clock was set back, no heartbeat counts as fresh.
        return 0 <= now - self._written_at.get(service_id, -self._fresh_s) < self._fresh_s
