"""The rows of a boot that one worker has leased: read as one snapshot, written only while the lease holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from zonesched.errors import LeaseLost
from zonesched.model.placement import LIVING_STATUSES
from zonesched.model.present_request import PresentForm
from zonesched.model.request_spec import RequestSpec
from zonesched.services.boot.boot_progress import Progress, progress, with_holds, with_places
from zonesched.services.boot.offers import Selected
from zonesched.services.state.boot_queue import NewBoot
from zonesched.services.zone import Zone
from zonesched.store import identity, instances, locks, moves, pending_instances, placements, reservations
from zonesched.store.placements import Placement
from zonesched.store.reservations import Lease, Reservation, ReservationState
from zonesched.store.store import Store, Transaction

T = TypeVar("T")


class LeasedBoot:
    """A reservation and the progress of its instances, as they were read last.

    `lease` is the worker's own; `progress` and `reservation` are replaced by `reread`. The outcome of a
    select is written together with the decision that follows from it, so that it costs no commit of its own.
    """

    def __init__(self, zone: Zone, lease: Lease, at: Progress, reservation: Reservation) -> None:
        self.lease = lease
        self.progress = at
        self.reservation = reservation
        self._zone = zone
        self._unwritten: Selected | None = None
        self._is_current = False

    @classmethod
    def read(cls, zone: Zone, lease: Lease) -> LeasedBoot:
        """Read the rows of a boot on which other workers may have worked before."""
        return cls(zone, lease, *_rows_of(zone.store, lease))

    @classmethod
    def of_new(cls, zone: Zone, new: NewBoot) -> LeasedBoot:
        """Take over a new boot without a read: its rows are known."""
        return cls(zone, new.lease, progress(new.members, ()), new.reservation)

    @property
    def required(self) -> int:
        """The number of instances that must be placed; deleted instances do not count."""
        return min(self.reservation.min_count, self.progress.wanted)

    def request_for(self, form: PresentForm) -> RequestSpec:
        """Return the request for instances that have this flavor and this image by now."""
        return form.requested(self.reservation.spec)

    def note_places(self, made: Sequence[Placement]) -> None:
        """Take over placements that were just written, so that the next `reread` need not read them."""
        self._note(with_places(self.progress, made))

    def note_holds(self, held: Sequence[Placement]) -> None:
        """Take over the holds that children have just answered, as `note_places` does."""
        self._note(with_holds(self.progress, held))

    def _note(self, found: Progress | None) -> None:
        self.progress, self._is_current = found or self.progress, found is not None

    def reread(self) -> None:
        """Read the rows again, unless what was just written is noted. Raises LeaseLost without a row."""
        if self._is_current:
            self._is_current = False
            return
        self.progress, reservation = _rows_of(self._zone.store, self.lease)
        self.reservation = self._with_select(reservation)

    def note_select(self, selected: Selected) -> None:
        """Keep the outcome of a select until the next write; write an earlier one that is still kept."""
        if self._unwritten is not None:
            self.write(lambda tx, change, now: None)
        self._unwritten = selected
        self.reservation = self._with_select(self.reservation)

    def last_places(self, tx: Transaction, uuids: Sequence[str]) -> Mapping[str, int]:
        """Return the number of the last placement (0 for none) of each of these instances, by uuid.

        Those that need none any more, since they have ended after the boot was read, are left out.
        """
        if pending_instances.count_never_placed(tx, uuids) == len(uuids):
            return dict.fromkeys(uuids, 0)
        read_as = {i.uuid: i.attempt for i in self.progress.needing}
        present = instances.current_statuses(tx, uuids)
        last = moves.last_numbers(tx, [uuid for uuid in uuids if present[uuid].attempt])
        return {
            uuid: last.get(uuid, 0)
            for uuid in uuids
            if present[uuid].status in LIVING_STATUSES and present[uuid].attempt == read_as[uuid]
        }

    def write(
        self,
        fn: Callable[[Transaction, int, float], T],
        moved: Sequence[Placement] = (),
        children_used: Collection[str] = (),
    ) -> T:
        """Run `fn(transaction, change, now)` in one fenced transaction and return its result.

        Locks the instances of `moved` and the children in `children_used` first. Raises LeaseLost.
        """
        selected = self._unwritten

        def fenced(tx: Transaction) -> T:
            now = self._zone.clock.now()
            locks.children(tx, children_used)
            reservations.keep_lease(tx, self.lease, now)
            locks.instances(tx, [p.uuid for p in moved])
            if selected is not None:
                _note(tx, self.lease, selected)
            return fn(tx, identity.next_change(tx), now)

        result = self._zone.store.write(fenced)
        self._unwritten = None
        return result

    def settle(self, tx: Transaction, now: float) -> None:
        """End the lease of a boot that is done, in this transaction; a wake-up meanwhile makes it due."""
        reservations.give_back(tx, self.lease, ReservationState.SETTLED, now, now, self.reservation.wakes)

    def give_back(self, state: ReservationState, due_at: float) -> None:
        """End the lease; the reservation is due again at `due_at` (epoch seconds) if it is still OPEN."""
        now, wakes, selected = self._zone.clock.now(), self.reservation.wakes, self._unwritten

        def fn(tx: Transaction) -> None:
            if selected is not None:
                _note(tx, self.lease, selected)
            reservations.give_back(tx, self.lease, state, now, due_at, wakes)

        self._zone.store.write(fn)

    def _with_select(self, reservation: Reservation) -> Reservation:
        selected = self._unwritten
        if selected is None:
            return reservation
        return replace(
            reservation,
            spec=selected.spec,
            why=selected.why,
            reason=selected.reason,
            selects=reservation.selects + selected.counts,
        )


def _note(tx: Transaction, lease: Lease, selected: Selected) -> None:
    reservations.note_select(tx, lease, selected.why, selected.spec, selected.reason, counts=selected.counts)


def _rows_of(store: Store, lease: Lease) -> tuple[Progress, Reservation]:
    caller_id, reservation_id = lease.caller_id, lease.reservation_id

    def fn(tx: Transaction) -> tuple[Progress, Reservation]:
        members = instances.members(tx, caller_id, reservation_id)
        places = placements.of_boot(tx, caller_id, reservation_id)
        reservation = reservations.find(tx, caller_id, reservation_id)
        if reservation is None:
            # The database of another server, which lacks the last commits.
            raise LeaseLost(f"Reservation {reservation_id} is not there any more.")
        return progress(members, places), reservation

    return store.read(fn)
