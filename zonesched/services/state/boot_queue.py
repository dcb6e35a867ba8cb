"""The queue of the boot workers of one process: boots accepted here, and when to poll the rows for others.

A boot comes with its lease, taken in the transaction that accepted it: its worker can begin at once, and
no other process takes it before the lease expires. A process that stops gives its unfinished boots back.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zonesched.model.placement import InstanceStatus
from zonesched.store.instances import Member
from zonesched.store.reservations import Lease, Reservation

MAX_BOOTS = 16
"""Limit of boots in a batch: other selects wait while they are decided."""

MAX_INSTANCES = 4_000
"""Limit of instances in a batch, except for a boot of more: other writers wait while they are written."""


@dataclass(frozen=True)
class NewBoot:
    """A boot as it was stored when it was accepted, and the lease to begin it under.

    `uuids`: its instances, in order of their positions.
    """

    lease: Lease
    reservation: Reservation
    uuids: tuple[str, ...]

    @property
    def members(self) -> list[Member]:
        """The instances as the boot worker needs them."""
        return [Member(uuid, InstanceStatus.BUILD, 0, "", 0) for uuid in self.uuids]


@dataclass(frozen=True)
class Batch:
    """Boots that one worker begins together, oldest first."""

    boots: Sequence[NewBoot]


class BootQueue:
    """Boots that wait for a worker, oldest first, and the time of the next poll of the rows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: deque[NewBoot] = deque()
        self._in_hand: set[Lease] = set()
        self._batch_in_hand = False
        self._closed = False
        self._poll_at = -math.inf
        self._wakes = 0

    def put(self, boot: NewBoot) -> bool:
        """Add a boot that was just accepted; False if the worker of a batch will look again anyway."""
        with self._lock:
            self._new.append(boot)
            return not self._batch_in_hand

    def take(self) -> NewBoot | None:
        """Take the boot that has waited longest, if any; its lease is in hand until `end`."""
        with self._lock:
            if self._closed or not self._new:
                return None
            return self._take_first()

    def take_batch(self, may_share: Callable[[NewBoot], bool]) -> Batch | NewBoot | None:
        """Take the boots that have waited longest and may share a batch, oldest first.

        One batch is in hand until `end_batch`; until then no boot that may share one is taken, so that those
        which come meanwhile share the next. A boot that may not is taken alone, as by `take`.
        """
        with self._lock:
            if self._closed or not self._new:
                return None
            if not may_share(self._new[0]):
                return self._take_first()
            if self._batch_in_hand:
                return None
            batch = [self._take_first()]
            room = MAX_INSTANCES - len(batch[0].uuids)
            while self._new and len(batch) < MAX_BOOTS and may_share(self._new[0]):
                room -= len(self._new[0].uuids)
                if room < 0:
                    break
                batch.append(self._take_first())
            self._batch_in_hand = True
            return Batch(tuple(batch))

    def end_batch(self, rest: Sequence[NewBoot] = ()) -> None:
        """Let the next batch begin; it starts with the `rest` of this one."""
        with self._lock:
            self._batch_in_hand = False
            self._in_hand.difference_update(boot.lease for boot in rest)
            self._new.extendleft(reversed(rest))

    def _take_first(self) -> NewBoot:
        boot = self._new.popleft()
        self._in_hand.add(boot.lease)
        return boot

    def begin(self, lease: Lease) -> None:
        """Note a lease that was taken from the rows; it is in hand until `end`."""
        with self._lock:
            self._in_hand.add(lease)

    def end(self, lease: Lease) -> None:
        """Note that work under this lease has ended; a closed queue keeps the lease for `unended`."""
        with self._lock:
            if not self._closed:
                self._in_hand.discard(lease)

    def close(self) -> None:
        """Begin no more work; work under way pauses after its present step."""
        with self._lock:
            self._closed = True

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def waiting(self) -> int:
        """The number of boots that no worker has taken yet."""
        return len(self._new)

    @property
    def leases(self) -> list[Lease]:
        """The leases in hand."""
        with self._lock:
            return list(self._in_hand)

    @property
    def in_hand(self) -> int:
        """The number of leases in hand."""
        return len(self._in_hand)

    def unended(self) -> list[Lease]:
        """The leases of boots that were not begun, or had not ended when the queue was closed."""
        with self._lock:
            return [*(boot.lease for boot in self._new), *self._in_hand]

    def poll_now(self) -> None:
        """Make the next poll of the rows due now."""
        with self._lock:
            self._wakes += 1
            self._poll_at = -math.inf

    @property
    def wakes(self) -> int:
        """The number of calls of `poll_now`; read before a poll and passed to `polled` after it."""
        return self._wakes

    @property
    def poll_at(self) -> float:
        """When the next poll of the rows is due, in monotonic seconds."""
        return self._poll_at

    def polled(self, seen_wakes: int, poll_at: float) -> None:
        """Set the time of the next poll, unless one was asked for since `seen_wakes` was read."""
        with self._lock:
            if seen_wakes == self._wakes:
                self._poll_at = poll_at
