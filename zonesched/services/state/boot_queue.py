"""What the boot workers of one process do next: boots accepted here, and now and then what the rows say.

A boot comes with its lease, taken in the transaction that accepted it: its worker can begin at once, and
no other process looks at it before the lease is over. A process that stops gives back what it has not ended.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass

from zonesched.store.instances import Instance, Member
from zonesched.store.reservations import Lease, Reservation


@dataclass(frozen=True)
class NewBoot:
    """A boot as it was written down when it was accepted, and the lease to begin it under."""

    lease: Lease
    reservation: Reservation
    instances: tuple[Instance, ...]

    @property
    def members(self) -> list[Member]:
        """What its worker needs to know of the instances."""
        return [Member(i.uuid, i.status, i.attempt, i.reason, i.failed_builds) for i in self.instances]


class BootQueue:
    """Boots that wait for a worker, oldest first, and when the rows are due to be looked at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: deque[NewBoot] = deque()
        self._in_hand: set[Lease] = set()
        self._closed = False
        self._look_at = -math.inf
        self._pokes = 0

    def put(self, boot: NewBoot) -> None:
        """Add a boot that was just accepted."""
        with self._lock:
            self._new.append(boot)

    def take(self) -> NewBoot | None:
        """The boot that has waited longest, if any; its lease is in hand until `end`."""
        with self._lock:
            if self._closed or not self._new:
                return None
            boot = self._new.popleft()
            self._in_hand.add(boot.lease)
            return boot

    def begin(self, lease: Lease) -> None:
        """A lease was taken by the rows; in hand until `end`."""
        with self._lock:
            self._in_hand.add(lease)

    def end(self, lease: Lease) -> None:
        """Nothing is done under this lease any more; a queue that was closed keeps it to be given back."""
        with self._lock:
            if not self._closed:
                self._in_hand.discard(lease)

    def close(self) -> None:
        """No more work is begun, and what is under way pauses after its present step."""
        with self._lock:
            self._closed = True

    @property
    def is_closed(self) -> bool:
        return self._closed

    def unended(self) -> list[Lease]:
        """What was not begun, or not ended before the queue was closed."""
        with self._lock:
            return [*(boot.lease for boot in self._new), *self._in_hand]

    def look_now(self) -> None:
        """Something has changed in the rows that a worker may wait for."""
        with self._lock:
            self._pokes += 1
            self._look_at = -math.inf

    @property
    def pokes(self) -> int:
        """How often a look was asked for; read before the look, told to `looked` after it."""
        return self._pokes

    @property
    def look_at(self) -> float:
        """From when on the rows are to be looked at (monotonic seconds)."""
        return self._look_at

    def looked(self, seen_pokes: int, look_at: float) -> None:
        """Nothing was due: look again then, or at once if that was asked for meanwhile."""
        with self._lock:
            if seen_pokes == self._pokes:
                self._look_at = look_at
