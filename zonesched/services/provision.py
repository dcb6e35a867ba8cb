"""Carry one leased boot on: select, hold, confirm, until nothing is left to do now.

What is to be done next always follows from the rows (`boot_progress`), so a worker that takes over after
another one died starts in the same place. Only the offers of the last select are kept in memory; a new
worker selects again.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.errors import ZoneschedError
from zonesched.filters.contract import FilterFailed
from zonesched.model.account import NO_ACCOUNT, Account, OwnAccount
from zonesched.model.build_plan import BuildPlan, ChildPlace, Entry, LocalPlace, Place, Refusal
from zonesched.model.group_place import Anywhere, AtChild, AtHost, TakenPlace
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import Policy, RequestSpec
from zonesched.services import child_calls, group_policy, select
from zonesched.services.boot_progress import WANTED, Progress, Step, next_step, progress
from zonesched.services.placement_moves import advance, let_go
from zonesched.services.select import Decision
from zonesched.services.zone import Zone
from zonesched.store import claims, identity, instances, placements, reservations
from zonesched.store.instances import Instance
from zonesched.store.placements import InChild, OnHost, Placement, Where
from zonesched.store.reservations import Lease, Reservation, ReservationState
from zonesched.store.store import Transaction

log = logging.getLogger(__name__)

State = PlacementState
ALTERNATES_PER_BUILD = 3


def carry_on(zone: Zone, lease: Lease) -> None:
    """Work on one reservation until it ends or has to wait. Raises LeaseLost when a later lease exists."""
    boot = _Boot(zone, lease)
    while (step := boot.look()) not in (Step.WAIT, Step.FINISH):
        boot.take(step)
    boot.give_back(step)


class _Offers:
    """What the last select offered and nobody has taken yet, best first."""

    def __init__(self, plan: BuildPlan | None = None) -> None:
        self._entries = deque((*plan.entries, *plan.alternates) if plan else ())
        self._bundles = deque(plan.bundles if plan else ())
        self.complete = plan is None or plan.complete

    def take(self, count: int) -> list[Entry]:
        """The next entries, at most `count`."""
        return [self._entries.popleft() for _ in range(min(count, len(self._entries)))]

    def take_bundle(self, size: int) -> list[Entry]:
        """The next bundle that has room for `size` instances; empty when there is none."""
        while self._bundles:
            bundle = self._bundles.popleft()
            if len(bundle.entries) >= size:
                return list(bundle.entries[:size])
        return []

    def blobs_for(self, place: ChildPlace) -> tuple[str, ...]:
        """The entry's own blob, then the best spare ones of the same child, which it tries in that order."""
        places = (entry.place for entry in self._entries)
        spare = [p.blob for p in places if isinstance(p, ChildPlace) and p.child_id == place.child_id]
        return (place.blob, *spare[:ALTERNATES_PER_BUILD])


class _Boot:
    def __init__(self, zone: Zone, lease: Lease) -> None:
        self._zone = zone
        self._lease = lease
        self._offers = _Offers()
        self._nothing_left = False
        self._places_at = 0.0
        self._at, self._reservation, self._wanted = self._read()

    # -- looking -------------------------------------------------------------------------------------------

    def look(self) -> Step:
        """Read the rows again, and say what follows from them."""
        self._at, self._reservation, self._wanted = self._read()
        zone = self._zone
        return next_step(
            self._at,
            min_count=min(self._reservation.min_count, self._wanted),
            whole=self._reservation.spec.policy is Policy.AFFINITY,
            can_place=not self._nothing_left,
            places_at=self._places_at,
            now=zone.clock.now(),
            hold_margin_s=zone.conf.hold_margin,
        )

    def _read(self) -> tuple[Progress, Reservation, int]:
        lease = self._lease

        def fn(tx: Transaction) -> tuple[Progress, Reservation, int]:
            reservation = reservations.read_one(tx, lease.caller_id, lease.reservation_id)
            found = instances.read_reservation(tx, lease.caller_id, lease.reservation_id)
            places = placements.read_by_uuid(tx, [i.uuid for i in found])
            wanted = sum(i.status in WANTED for i in found)
            return progress(found, places), reservation, wanted

        return self._zone.store.read(fn)

    # -- acting --------------------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        """Do one step."""
        match step:
            case Step.SEND:
                self._send()
            case Step.PLACE:
                self._place()
            case Step.GIVE_UP:
                self._give_up()
            case Step.DROP_HELD:
                self._drop(self._at.held, "group_broken")
            case Step.DROP_LATE:
                self._drop(self._at.late(self._zone.clock.now(), self._zone.conf.hold_margin), "hold_late")
            case Step.CONFIRM:
                self._confirm()
            case Step.CLOSE:
                self._close()

    def give_back(self, step: Step) -> None:
        """End the lease: settled, or due again for the next select, or once the last hold is surely over."""
        waiting = step is Step.WAIT
        now = self._zone.clock.now()
        # A hold that is over still has to be reaped, which pokes: to look again at once would find the same.
        due_at = max((p.hold_expires_at for p in self._at.waiting), default=0.0)
        due_at = max(due_at, now + self._zone.conf.retry_pause)
        if now < self._places_at:
            due_at = self._places_at
        state = ReservationState.OPEN if waiting else ReservationState.SETTLED
        pokes = self._reservation.pokes
        self._zone.store.write(lambda tx: reservations.give_back(tx, self._lease, state, due_at, pokes))

    def _fenced(self, tx: Transaction) -> tuple[int, float]:
        now = self._zone.clock.now()
        reservations.keep_lease(tx, self._lease, now)
        return identity.next_change(tx), now

    def _send(self) -> None:
        """Send what is INTENDED; what gets no answer is cancelled: its instance moves once that is sure."""
        zone, at = self._zone, self._at
        spec = replace(self._reservation.spec, time_budget_s=zone.conf.build_timeout)
        child_calls.send_builds(zone, at.unanswered, spec, zone.conf.hold, self._lease)
        uuids = [p.uuid for p in at.unanswered]
        still = [
            p
            for p in zone.store.read(lambda tx: placements.read_by_uuid(tx, uuids))
            if p.state is State.INTENDED
        ]
        self._drop(still, "no_answer")

    def _drop(self, dropped: Sequence[Placement], reason: str) -> None:
        zone = self._zone

        def fn(tx: Transaction) -> None:
            change, now = self._fenced(tx)
            for p in dropped:
                let_go(tx, change, p, now, reason)

        if dropped:
            zone.store.write(fn)
            keys = {p.key for p in dropped}
            uuids = [p.uuid for p in dropped]
            cancelling = [
                p
                for p in zone.store.read(lambda tx: placements.read_by_uuid(tx, uuids))
                if p.key in keys and p.state is State.CANCELLING
            ]
            child_calls.send_cancels(zone, cancelling)

    # -- placing -------------------------------------------------------------------------------------------

    def _place(self) -> None:
        entries = self._next_entries()
        if not entries:
            self._nothing_left = not self._places_at
            return
        uuids = [instance.uuid for instance in self._at.needing]
        self._zone.store.write(lambda tx: self._write_places(tx, dict(zip(uuids, entries, strict=False))))

    def _next_entries(self) -> list[Entry]:
        """What the missing instances get; nothing if it is too little, or is to be asked for later."""
        self._places_at = 0.0
        missing = len(self._at.needing)
        whole = self._reservation.spec.policy is Policy.AFFINITY

        def take() -> list[Entry]:
            return self._offers.take_bundle(missing) if whole else self._offers.take(missing)

        entries = take()
        # A new select offers the same room again, so what is left of an older one is never added to it.
        if len(entries) < missing and self._select():
            entries = take()
            if len(entries) < missing and not self._offers.complete and self._may_select:
                self._places_at = self._next_select_at()
                return []
        possible = self._at.promised + len(self._at.waiting) + len(entries)
        # Fewer than the user can use: nothing of it is placed.
        return entries if possible >= min(self._reservation.min_count, self._wanted) else []

    @property
    def _may_select(self) -> bool:
        return bool(self._reservation.selects < self._zone.conf.max_attempts)

    def _next_select_at(self) -> float:
        """When to ask those who were silent again: after a growing pause, before a hold is too short."""
        zone = self._zone
        now, pause_s = zone.clock.now(), child_calls.pause_s(zone, self._reservation.selects)
        safe_until = min((p.hold_expires_at for p in self._at.held), default=math.inf) - zone.conf.hold_margin
        return float(max(now, min(now + pause_s, safe_until)))

    def _select(self) -> bool:
        """Ask everybody once more; False when this boot has asked often enough, or its request is refused."""
        zone, reservation = self._zone, self._reservation
        if not self._may_select:
            return False
        spec = replace(
            reservation.spec,
            num_instances=len(self._at.needing),
            time_budget_s=zone.conf.select_timeout,
        )
        try:
            decision = select.decide(zone, spec, reservation.caller_id, select.BEST_HOSTS)
        except ZoneschedError as error:
            log.warning("select for reservation %s failed: %s", reservation.id, error.message)
            self._note_select(reservation.spec, _failure(error), error.code)
            return False
        plan = decision.plan
        reason = _reason_for_none(decision)
        weighed = replace(reservation.spec, weighing=decision.spec.weighing)
        self._note_select(weighed, decision.account, reason)
        self._reservation = replace(reservation, selects=reservation.selects + 1, spec=weighed)
        self._offers = _Offers(plan)
        return True

    def _note_select(self, spec: RequestSpec, why: Account, reason: str) -> None:
        def fn(tx: Transaction) -> None:
            self._fenced(tx)
            reservations.note_select(tx, self._lease, why, spec, reason)

        self._zone.store.write(fn)

    def _write_places(self, tx: Transaction, entry_of: Mapping[str, Entry]) -> None:
        """Claim own hosts, and write down what children will be asked, before anybody is asked.

        When all of it is on own hosts and nothing is open elsewhere, that is the confirm as well.
        """
        change, now = self._fenced(tx)
        rows = instances.read_by_uuid(tx, list(entry_of))
        read_as = {i.uuid: i.attempt for i in self._at.needing}
        # An instance that was deleted since it was read gets no place.
        live = [u for u in entry_of if rows[u].status in WANTED and rows[u].attempt == read_as[u]]
        places = {uuid: entry_of[uuid].place for uuid in live}
        group, caller_id = self._reservation.spec.group, self._lease.caller_id
        wanted = {uuid: _group_place(place) for uuid, place in places.items()}
        refused = group_policy.refused(tx, caller_id, group, wanted)
        allowed = {uuid: place for uuid, place in places.items() if uuid not in refused}
        taken = self._claim_own_hosts(tx, change, allowed)
        all_here = all(uuid in taken for uuid in live) and len(live) == len(self._at.needing)
        elsewhere = self._at.held or self._at.waiting or self._at.confirming
        own_state = State.CONFIRMED if all_here and not elsewhere else State.HELD
        made: list[Placement] = []
        for uuid, place in places.items():
            match place:
                case LocalPlace(host_id):
                    where: Where = OnHost(host_id, self._reservation.spec.resources)
                    state = own_state if uuid in taken else State.FAILED
                case ChildPlace(child_id):
                    where = InChild(child_id, self._offers.blobs_for(place))
                    state = State.FAILED if uuid in refused else State.INTENDED
            made.append(
                Placement(
                    uuid=uuid,
                    number=rows[uuid].attempt + 1,
                    caller_id=caller_id,
                    reservation_id=self._lease.reservation_id,
                    where=where,
                    state=state,
                    reason=refused.get(uuid, "claim_lost") if state is State.FAILED else "",
                    hold_expires_at=now + self._zone.conf.hold,
                    retained_until=now + self._zone.conf.hold + self._zone.conf.retry_window,
                )
            )
        placements.insert(tx, made)
        group_policy.take_place(tx, caller_id, group, made)
        instances.set_attempts(tx, change, {p.uuid: p.number for p in made}, InstanceStatus.BUILD, now)

    def _claim_own_hosts(self, tx: Transaction, change: int, places: Mapping[str, Place]) -> frozenset[str]:
        """The instances whose own host had room, first come first served; of a group all or none."""
        host_of = {uuid: p.host_id for uuid, p in places.items() if isinstance(p, LocalPlace)}
        resources = self._reservation.spec.resources
        room = dict(claims.claim(tx, change, Counter(host_of.values()), resources))
        taken: set[str] = set()
        for uuid, host_id in host_of.items():
            if room[host_id] > 0:
                room[host_id] -= 1
                taken.add(uuid)
        if len(taken) < len(host_of):
            self._zone.hosts.expire()
        if self._reservation.spec.policy is Policy.AFFINITY and len(taken) < len(host_of):
            claims.release(tx, change, [(host_of[uuid], resources) for uuid in sorted(taken)])
            return frozenset()
        return frozenset(taken)

    # -- ending --------------------------------------------------------------------------------------------

    def _confirm(self) -> None:
        """Decide for what is held: own hosts at once, children as soon as they answer."""
        zone, held = self._zone, self._at.held

        def fn(tx: Transaction) -> None:
            change, now = self._fenced(tx)
            for p in held:
                if p.hold_expires_at > now:
                    to = State.CONFIRMING if isinstance(p.where, InChild) else State.CONFIRMED
                    advance(tx, change, zone.uuid, p, to, now)

        zone.store.write(fn)
        keys = {p.key for p in held}
        uuids = [p.uuid for p in held]
        found = zone.store.read(lambda tx: placements.read_by_uuid(tx, uuids))
        decided = [p for p in found if p.key in keys and p.state is State.CONFIRMING]
        child_calls.send_confirms(zone, decided, self._lease)

    def _give_up(self) -> None:
        """Let everything go: fewer than min_count can be had."""
        at = self._at
        self._end(at.needing, (*at.held, *at.waiting, *at.confirming, *at.confirmed))

    def _close(self) -> None:
        """End what could not be placed; the others stay."""
        self._end(self._at.needing, ())

    def _end(self, unplaced: Sequence[Instance], placed: Sequence[Placement]) -> None:
        reason = self._reservation.reason or "no_valid_host"

        def fn(tx: Transaction) -> bool:
            change, now = self._fenced(tx)
            told = [let_go(tx, change, p, now, reason) for p in placed]
            uuids = [i.uuid for i in unplaced] + [p.uuid for p in placed]
            instances.set_status(
                tx, change, uuids, InstanceStatus.ERROR, now, reason=reason, only_from=list(WANTED)
            )
            return any(told)

        if self._zone.store.write(fn):
            self._zone.wake_callers()


def _failure(error: ZoneschedError) -> Account:
    """The account of a select that a plugin of this zone has spoilt, or a request that cannot be read."""
    if isinstance(error, FilterFailed):
        return Account(OwnAccount(steps=(Refusal(error.filter_name, error.code),)))
    return NO_ACCOUNT


def _reason_for_none(decision: Decision) -> str:
    """Why a boot ends for which nothing more is offered than a select has offered."""
    if not decision.plan.complete:
        return "no_valid_host_incomplete"
    return "no_valid_host" if isinstance(decision.group_place, Anywhere) else "group_place_full"


def _group_place(place: Place) -> TakenPlace:
    match place:
        case LocalPlace(host_id):
            return AtHost(host_id)
        case ChildPlace(child_id):
            return AtChild(child_id)
