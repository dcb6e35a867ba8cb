"""Agents whose promise to end their instances is kept by now, as one process of the zone has observed.

A process counts by its own monotonic time from the moment at which it first saw an agent's last heartbeat in
the rows, which is after the agent sent it. So no clock of another machine counts and none that is set, and a
process that has just started waits for a whole fence time.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from zonesched.model.fencing import fenced_after_s
from zonesched.seams import Clock
from zonesched.store import fencing_promises
from zonesched.store.fencing_promises import Promise
from zonesched.store.store import Store, Transaction


@dataclass(frozen=True)
class _Seen:
    promise: Promise
    at: float
    """Monotonic seconds."""


class Fences:
    """Promises of agents, each with the time at which this process first saw its last heartbeat."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def look(self) -> None:
        """Read all promises."""
        read = self._store.read(fencing_promises.read_all)
        now = self._clock.monotonic()
        with self._lock:
            before = self._seen
            self._seen = {
                id: before[id] if id in before and before[id].promise == promise else _Seen(promise, now)
                for id, promise in read.items()
            }

    def promised(self, service_id: str) -> bool:
        """Tell whether the agent of a service fences, as far as this process has seen."""
        with self._lock:
            return service_id in self._seen

    def over(self) -> list[str]:
        """List the services whose agents have kept their promise by now; `is_over` then makes sure."""
        with self._lock:
            return sorted(id for id, seen in self._seen.items() if self._left_s(seen) <= 0)

    def left_s(self, tx: Transaction, service_id: str) -> float | None:
        """Seconds until nothing runs on the service's hosts, 0 if that is so; None where nobody promises it.

        Right also while a heartbeat is being written: its answer comes later, too late for the agent to count
        from it.
        """
        promise = fencing_promises.read(tx, service_id)
        if promise is None:
            return None
        with self._lock:
            seen = self._seen.get(service_id)
        if seen is None or seen.promise != promise:
            return fenced_after_s(promise.fence_after_s)
        return max(0.0, self._left_s(seen))

    def _left_s(self, seen: _Seen) -> float:
        return seen.at + fenced_after_s(seen.promise.fence_after_s) - self._clock.monotonic()
