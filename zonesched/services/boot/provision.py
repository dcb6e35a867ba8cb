"""Carry on one leased boot: select, hold, confirm, until nothing is left to do now.

The next step always follows from the rows (`boot_progress`), so a worker that takes over after another died
starts in the same place. Only the offers of the last select (`next_entries`) are kept in memory; a new worker
selects again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.model.build_plan import ChildBlob, Entry
from zonesched.model.place import LocalPlace
from zonesched.model.placement import (
    COUNTED_STATUSES,
    GROUP_BROKEN,
    HOLD_LATE,
    LIVING_STATUSES,
    InstanceStatus,
)
from zonesched.model.placement import PlacementState as State
from zonesched.model.request_spec import Policy
from zonesched.services.boot.boot_progress import Progress, Step, next_step
from zonesched.services.boot.leased_boot import LeasedBoot
from zonesched.services.boot.next_entries import NextEntries
from zonesched.services.life.shelving import rest_again
from zonesched.services.placing import child_calls, new_places
from zonesched.services.placing.new_places import NewPlace
from zonesched.services.placing.placement_moves import advance, end_unwanted
from zonesched.services.select.faults import NOT_ALL_ANSWERED
from zonesched.services.state.boot_queue import NewBoot
from zonesched.services.zone import Zone
from zonesched.store import instances, placements, reservations
from zonesched.store.instances import Member
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.reservations import Lease, Reservation, ReservationState
from zonesched.store.store import Transaction


class NoProgress(Exception):
    """A step changed no input of the next step: a defect of this program."""


def carry_on(zone: Zone, lease: Lease) -> None:
    """Work on one reservation until it ends or has to wait.

    In a process that stops, the next step is left to the next lease holder. Raises LeaseLost when a later
    lease exists, and NoProgress.
    """
    _go_on(zone, _Boot(zone, LeasedBoot.read(zone, lease)))


def begin(zone: Zone, new: NewBoot) -> None:
    """Work on a boot that was just accepted, as `carry_on` does, without reading its rows first."""
    _go_on(zone, _Boot(zone, LeasedBoot.of_new(zone, new)))


def _go_on(zone: Zone, boot: _Boot) -> None:
    while not zone.boots.is_closed:
        step = boot.step
        if step in (Step.WAIT, Step.FINISH):
            boot.give_back(step)
            return
        before = boot.position
        boot.take(step)
        if boot.finished:
            return
        boot.reread()
        if boot.step is step and boot.position == before:
            raise NoProgress(f"step {step.value} changed nothing")


class _Boot:
    """One worker's work on a boot. `finished`: all is decided, and the last write ended the lease."""

    def __init__(self, zone: Zone, rows: LeasedBoot) -> None:
        self.finished = False
        self._zone = zone
        self._rows = rows
        self._entries = NextEntries(zone, rows)

    @property
    def _at(self) -> Progress:
        return self._rows.progress

    @property
    def _reservation(self) -> Reservation:
        return self._rows.reservation

    def reread(self) -> None:
        """Read the rows again; a failed build, or an instance unshelved meanwhile, may be placed again."""
        failed_before, needing_before = self._at.failed_builds, {one.uuid for one in self._at.needing}
        self._rows.reread()
        unshelved = {one.uuid for one in self._at.needing if one.is_unshelving}
        if self._at.failed_builds > failed_before or unshelved - needing_before:
            self._entries.renew()

    @property
    def position(self) -> tuple[object, ...]:
        """The inputs of the next step except the time: each step changes them, or ends the work."""
        return (self._at, self._reservation.selects, self._entries.are_used_up, self._entries.places_at)

    @property
    def step(self) -> Step:
        """Next step, derived from the rows as they were read last."""
        return self._step_at(self._at)

    def _step_at(self, at: Progress) -> Step:
        zone = self._zone
        return next_step(
            at,
            min_count=self._rows.required,
            whole=self._reservation.spec.policy is Policy.AFFINITY,
            can_place=not self._entries.are_used_up,
            places_at=self._entries.places_at,
            now=zone.clock.now(),
            hold_margin_s=zone.conf.hold_margin,
        )

    # -- acting --------------------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        """Do one step."""
        at = self._at
        match step:
            case Step.SEND:
                self._send()
            case Step.PLACE:
                self._place()
            case Step.GIVE_UP:
                self._end(at.needing, (*at.held, *at.waiting, *at.confirming, *at.confirmed), at.kept)
            case Step.DROP_HELD:
                self._drop(at.held, GROUP_BROKEN)
            case Step.DROP_LATE:
                self._drop(at.late(self._zone.clock.now(), self._zone.conf.hold_margin), HOLD_LATE)
            case Step.CONFIRM:
                self._confirm()
            case Step.CLOSE:
                self._end(at.needing, (), ())

    def give_back(self, step: Step) -> None:
        """End the lease: SETTLED, or due for the next select or when the last hold has expired."""
        waiting = step is Step.WAIT
        now = self._zone.clock.now()
        # The reaper ends an expired hold and wakes this boot: to read again at once would find the same.
        due_at = max((p.hold_expires_at for p in self._at.waiting), default=0.0)
        due_at = max(due_at, now + self._zone.conf.retry_pause)
        if now < self._entries.places_at:
            due_at = self._entries.places_at
        self._rows.give_back(ReservationState.OPEN if waiting else ReservationState.SETTLED, due_at)

    def _send(self) -> None:
        """Send INTENDED builds and cancel unanswered ones; an instance moves once its cancel is certain."""
        zone, at, lease = self._zone, self._at, self._rows.lease
        unanswered: list[Placement] = []
        held: list[Placement] = []
        all_tried = True
        groups = at.unanswered_by_form()
        # Where these holds alone decide on the confirm, the write that records them decides it.
        confirm_all = not at.held and len(groups) == 1 and self._step_at(at.once_held) is Step.CONFIRM
        for form, some in groups:
            budget_s = self._time_limit_s((*at.held, *held, *some))
            spec = replace(self._rows.request_for(form), time_budget_s=budget_s)
            sent = child_calls.send_builds(zone, some, spec, zone.conf.hold, lease, confirm_all=confirm_all)
            if sent.confirming:
                self._call_confirms(sent.confirming, all_decided=True)
                return
            unanswered += sent.unanswered
            held += sent.held
            all_tried &= sent.all_tried
        if not all_tried:
            self._rows.write(lambda tx, change, now: reservations.note_reason(tx, lease, NOT_ALL_ANSWERED))
        self._entries.put_last({p.where.child_id for p in unanswered if isinstance(p.where, AskedChild)})
        self._drop(unanswered, "no_answer")
        self._rows.note_holds(held)

    def _drop(self, dropped: Sequence[Placement], reason: str) -> None:
        zone = self._zone
        if dropped:
            self._rows.write(lambda tx, change, now: end_unwanted(tx, change, dropped, now, reason), dropped)
            uuids = [p.uuid for p in dropped]
            found = zone.store.read(lambda tx: placements.read_by_uuid(tx, uuids))
            cancelling = [p for p in found if p.state is State.CANCELLING]
            # What is not answered at once is repeated in the background, and its answer wakes this boot.
            child_calls.send_cancels(zone, cancelling, zone.conf.retry_pause)

    def _time_limit_s(self, held: Sequence[Placement]) -> float:
        """Return how long children may take with a call: half of what is left to confirm all these holds.

        So a child that hangs leaves as much for another place, while the other children hold.
        """
        conf, now = self._zone.conf, self._zone.clock.now()
        until = min((p.hold_expires_at for p in held), default=math.inf) - conf.hold_margin
        return float(min(conf.build_timeout, max(conf.retry_pause, (until - now) / 2)))

    # -- placing -------------------------------------------------------------------------------------------

    def _place(self) -> None:
        entries = self._entries.take()
        if not entries:
            return
        entry_of = dict(zip([needing.uuid for needing in self._at.needing], entries, strict=False))
        self.finished, made = self._rows.write(
            lambda tx, change, now: self._write_places(tx, change, now, entry_of),
            children_used={e.place.child_id for e in entries if isinstance(e.place, ChildBlob)},
        )
        if self.finished:
            self._zone.wake.agents_of(e.place.host_id for e in entries if isinstance(e.place, LocalPlace))
        else:
            self._rows.note_places(made)

    def _write_places(
        self, tx: Transaction, change: int, now: float, entry_of: Mapping[str, Entry]
    ) -> tuple[bool, Sequence[Placement]]:
        """Claim local hosts, and write the placements in children before any child is asked.

        When all of it is on local hosts and nothing is open elsewhere, that is the confirm as well, and the
        end of this boot: True, with the placements.
        """
        zone, reservation = self._zone, self._reservation
        boot = new_places.Boot(
            self._rows.lease.caller_id,
            self._rows.lease.reservation_id,
            self._rows.request_for(self._at.form),
            zone.conf.hold,
            whole=reservation.spec.policy is Policy.AFFINITY,
        )
        places = self._new_places(tx, now, entry_of)
        claimed = new_places.claim(zone, tx, change, boot, places)
        all_here = claimed.all_local and len(places) == len(self._at.needing)
        is_open = self._at.held or self._at.waiting or self._at.confirming or self._at.later
        finished = all_here and not is_open
        made = new_places.write(
            tx,
            change,
            boot,
            claimed,
            now,
            local_state=State.CONFIRMED if finished else State.HELD,
            status_of_failed=InstanceStatus.BUILD,
            known=entry_of,
        )
        if finished:
            self._rows.settle(tx, now)
        return finished, made

    def _new_places(self, tx: Transaction, now: float, entry_of: Mapping[str, Entry]) -> list[NewPlace]:
        """Return a place for each instance that needs one, except those deleted since they were read."""
        last = self._rows.last_places(tx, list(entry_of))
        retained_until = now + self._zone.conf.hold + self._zone.conf.retry_window
        found: list[NewPlace] = []
        builds = len(entry_of)
        for uuid, entry in entry_of.items():
            if uuid in last:
                place = entry.place
                spare = self._entries.spare_blobs(place, builds) if isinstance(place, ChildBlob) else ()
                found.append(NewPlace(uuid, last[uuid] + 1, place, retained_until, spare))
        return found

    # -- ending --------------------------------------------------------------------------------------------

    def _confirm(self) -> None:
        """Confirm what is held: local hosts at once, children as soon as they answer."""
        zone, held = self._zone, self._at.held

        def fn(tx: Transaction, change: int, now: float) -> tuple[list[Placement], list[Placement]]:
            living = [p for p in held if p.hold_expires_at > now]
            in_children = [p for p in living if isinstance(p.where, AskedChild)]
            on_hosts = [p for p in living if not isinstance(p.where, AskedChild)]
            pause_s = zone.conf.retry_pause
            confirming = advance(
                tx, change, zone.uuid, in_children, State.CONFIRMING, now, repeat_in_s=pause_s
            )
            return confirming, advance(tx, change, zone.uuid, on_hosts, State.CONFIRMED, now)

        confirming, built = self._rows.write(fn, held)
        zone.wake.agents(built)
        self._call_confirms(confirming, all_decided=len(confirming) + len(built) == len(held))

    def _call_confirms(self, confirming: Sequence[Placement], *, all_decided: bool) -> None:
        """Call children to build. `all_decided`: no hold was lost before its confirm was decided."""
        # Nothing follows the answers of children if all have a place: they end the work with their own write.
        is_last = all_decided and not (self._at.needing or self._at.waiting)
        end = self._rows.settle if is_last else None
        self.finished = child_calls.send_confirms(self._zone, confirming, self._rows.lease, end).ended

    def _end(self, unplaced: Sequence[Member], placed: Sequence[Placement], kept: Sequence[str]) -> None:
        """End instances without a place, and with them, as too few are left, those in `placed` and `kept`."""
        why = self._reservation.reason or "no_valid_host"
        # An instance whose build failed keeps that reason when it cannot be placed again.
        resting = {i.uuid for i in unplaced if i.is_unshelving}
        uuids_of = {why: [p.uuid for p in placed]}
        for i in unplaced:
            uuids_of.setdefault(i.reason or why, []).append(i.uuid)

        def fn(tx: Transaction, change: int, now: float) -> bool:
            # All places: one that moves has another one as well.
            everywhere = placements.read_by_uuid(tx, [p.uuid for p in placed]) if placed else ()
            call_children = end_unwanted(tx, change, everywhere, now, why)
            for reason, uuids in uuids_of.items():
                rest_again(tx, change, [uuid for uuid in uuids if uuid in resting], reason, now)
                instances.set_status(
                    tx, change, uuids, InstanceStatus.ERROR, now, reason=reason, only_from=LIVING_STATUSES
                )
            instances.set_status(
                tx, change, kept, InstanceStatus.ERROR, now, reason=why, only_from=COUNTED_STATUSES
            )
            return call_children

        if self._rows.write(fn, placed):
            self._zone.wake.child_calls()
        self._zone.wake.agents(placed)
