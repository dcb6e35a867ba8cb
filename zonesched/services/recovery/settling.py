"""The decisions of a recovery, carried out in the rows one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zonesched.model.inconsistency import Repaired, RepairResult
from zonesched.model.placement import (
    CLAIMING,
    LIVING_STATUSES,
    LOST_IN_RESTORE,
    WANTED,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.request_spec import RequestSpec
from zonesched.services.life.shelving import note_offloaded, rest_again
from zonesched.services.placing.placement_moves import end_unwanted
from zonesched.services.recovery import found_states, moves_found, shown
from zonesched.services.recovery.decision import Adopted, Confirmed, Decision, Ended, Known, Moved, Moving
from zonesched.services.zone import Zone
from zonesched.store import (
    agent_work,
    claims,
    inbound,
    instance_states,
    instances,
    new_placements,
    placements,
    recovery,
    repairs,
    reservations,
)
from zonesched.store.inbound import InboundBuild
from zonesched.store.placements import AskedChild, ClaimedHost, Placement, Where
from zonesched.store.recovery import Found, Kind, Named
from zonesched.store.reservations import ReservationState
from zonesched.store.store import Transaction

State = PlacementState


class _DoesNotFit(Exception):
    """A found instance cannot have a place here, and the reason."""


@dataclass(frozen=True)
class Settling:
    """One end of a recovery: the zone, its open transaction, the number of its change, and the time."""

    zone: Zone
    tx: Transaction
    change: int
    now: float

    def give_back(self, decision: Decision) -> None:
        """End an instance that was found nowhere, and the places that another one has left."""
        match decision:
            case Ended(known):
                self.end(known)
            case Moved(known, found):
                self._leave_all_but(known, found.number)
            case Moving(known, found, old):
                self._leave_all_but(known, found.number, old.number)

    def settled(self, decision: Decision) -> RepairResult:
        """Carry out a decision, but for what `give_back` has done already."""
        found = shown.of_decision(decision)
        try:
            match decision:
                case Ended(known):
                    (status,) = instances.current_statuses(self.tx, [known.instance.uuid]).values()
                    return Repaired(found, f"it is {status.status.value}, its claims are released")
                case Moved(known, there):
                    self._move(known, there)
                    moves_found.finish(self.tx, self.change, known, there, self.now)
                    return Repaired(found, "its place is where it was found")
                case Moving(known, there):
                    self._move(known, replace(there, status=InstanceStatus.ACTIVE))
                    moves_found.go_on(self.zone, self.tx, self.change, known, there, self.now)
                    return Repaired(found, "its move goes on to where it was found")
                case Confirmed(_, there):
                    moves_found.confirm(self.tx, self.change, there, self.now)
                    return Repaired(found, "its move is done, and the claims of its old place are released")
                case Adopted(there, named):
                    self._adopt(there, named)
                    return Repaired(found, "it is adopted, with its claims")
                case _:
                    return Repaired(found, "it runs on, and its host takes no more")
        except _DoesNotFit as why:
            return Repaired(found, f"{why}: it runs on, and its host takes no more")

    def end(self, known: Known) -> None:
        """End an instance in the rows; an own one that is being shelved or unshelved rests.

        A parent learns it as deleted: it may have asked for that.
        """
        uuid, tx, change, now = known.instance.uuid, self.tx, self.change, self.now
        places = [p for p in placements.read_by_uuid(tx, [uuid]) if p.state in WANTED | {State.PARKED}]
        end_unwanted(tx, change, places, now, LOST_IN_RESTORE)
        if known.instance.caller_id == self.zone.uuid:
            note_offloaded(tx, change, [known.place] if known.place is not None else [], now)
            rest_again(tx, change, [uuid], LOST_IN_RESTORE, now)
        status = self._end_status(known)
        instances.set_status(
            tx, change, [uuid], status, now, reason=LOST_IN_RESTORE, only_from=LIVING_STATUSES
        )

    def _end_status(self, known: Known) -> InstanceStatus:
        is_own = known.instance.caller_id == self.zone.uuid
        return InstanceStatus.ERROR if is_own else InstanceStatus.DELETED

    def _leave_all_but(self, known: Known, *staying: int) -> None:
        uuid = known.instance.uuid
        there = {one.number for one in recovery.found_of(self.tx, [uuid])[uuid]}
        # What was kept where it is no more is of no use for a move, either.
        left = [
            p
            for p in placements.read_by_uuid(self.tx, [uuid])
            if p.state in WANTED or (p.state is State.PARKED and p.number not in there)
        ]
        others = [p for p in left if p.number not in staying]
        end_unwanted(self.tx, self.change, others, self.now, "found_elsewhere")

    def _move(self, known: Known, found: Found) -> None:
        row = known.instance
        boot = reservations.read_ids(self.tx, [row.reservation_id])[row.caller_id, row.reservation_id]
        state = instance_states.read(self.tx, [row.uuid]).get(row.uuid)
        flavor = (
            boot.spec.flavor if state is None else found_states.flavor_there(state.state, boot.spec.flavor)
        )
        places = placements.read_by_uuid(self.tx, [row.uuid])
        try:
            where = self._claim(found, replace(boot.spec, flavor=flavor), places)
        except _DoesNotFit:
            self.end(known)
            raise
        self._put(found, where, row.caller_id, row.reservation_id, places)
        self._note_number(known, found)
        if state is not None and found.number > row.attempt:
            found_states.note_later_place(self.tx, state, self.now, in_child=found.kind is Kind.CHILD)

    def _note_number(self, known: Known, found: Found) -> None:
        """Let the parent's attempt name the place; a later attempt that the parent names is a new row."""
        row, named = known.instance, found.named
        build = inbound.of_place(self.tx, row.caller_id, row.uuid, row.attempt)
        is_later = named is not None and named.caller_id == row.caller_id
        if named is not None and is_later and (build is None or build.attempt != named.attempt):
            self._insert_build(found, named)
        elif build is not None:
            inbound.give_place(self.tx, replace(build, number=found.number))

    def _adopt(self, found: Found, named: Named) -> None:
        places = placements.read_by_uuid(self.tx, [found.uuid])
        row = instances.read_by_uuid(self.tx, [found.uuid]).get(found.uuid)
        if row is not None and row.caller_id != named.caller_id:
            raise _DoesNotFit("another caller's instance has this uuid")
        where = self._claim(found, named.spec, places)
        is_own = named.caller_id == self.zone.uuid
        key = (named.caller_id, named.reservation_id)
        if key not in reservations.read_ids(self.tx, [named.reservation_id]):
            reservations.insert(
                self.tx,
                reservations.of_request(
                    named.spec,
                    reservation_id=named.reservation_id,
                    caller_id=named.caller_id,
                    user_id=named.caller_id,
                    min_count=0,
                    state=ReservationState.SETTLED if is_own else ReservationState.SERVED,
                    now=self.now,
                ),
            )
        if row is None:
            new = instances.of_request(
                named.spec,
                uuid=found.uuid,
                reservation_id=named.reservation_id,
                caller_id=named.caller_id,
                user_id=named.caller_id,
                position=0,
                name=found.uuid,
                status=_status(found),
                attempt=found.number,
                now=self.now,
            )
            instances.insert(self.tx, self.change, [new])
        self._put(found, where, named.caller_id, named.reservation_id, places)
        if is_own:
            repairs.recount(self.tx, *key)
        else:
            self._insert_build(found, named)

    def _insert_build(self, found: Found, named: Named) -> None:
        build = InboundBuild(
            found.uuid, named.caller_id, named.attempt, named.reservation_id, found.number, (), self.now
        )
        inbound.give_place(self.tx, build)

    def _claim(self, found: Found, spec: RequestSpec, places: Sequence[Placement]) -> Where:
        """Claim for the place where an instance was found. Raises _DoesNotFit, with nothing written."""
        if found.kind is Kind.AGENT and not found.host_id:
            raise _DoesNotFit("its agent does not say on which host it is")
        where: Where = AskedChild(found.holder_id, ())
        if found.kind is Kind.AGENT:
            # It may have been resized since the copy.
            there = spec if found.flavor is None else replace(spec, flavor=found.flavor)
            where = ClaimedHost(found.host_id, there.resources)
        stored = _numbered(places, found.number)
        if stored is not None and _spot(stored.where) != _spot(where):
            raise _DoesNotFit("another place of it has this number")
        is_claimed = stored is not None and stored.state in CLAIMING
        if isinstance(where, ClaimedHost) and not is_claimed:
            taken = claims.claim(self.tx, self.change, {where.host_id: 1}, where.resources)
            if not taken[where.host_id]:
                raise _DoesNotFit("its host has no room for it")
        return where

    def _put(
        self, found: Found, where: Where, caller_id: str, reservation_id: str, places: Sequence[Placement]
    ) -> None:
        """Make the place where an instance was found its present one."""
        recovery.forget(self.tx, [found])
        stored = _numbered(places, found.number)
        if stored is not None:
            placements.move(self.tx, self.change, stored, State.CONFIRMED, reason=RESTORED, repair=True)
            agent_work.note_fetched(self.tx, [found.uuid])
        else:
            made = Placement(
                uuid=found.uuid,
                number=found.number,
                caller_id=caller_id,
                reservation_id=reservation_id,
                where=where,
                state=State.CONFIRMED,
                reason=RESTORED,
                hold_expires_at=self.now,
                retained_until=self.now,
                is_fetched=True,
            )
            new_placements.insert(self.tx, [made])
        instances.set_attempts(self.tx, self.change, {found.uuid: found.number}, _status(found), self.now)


RESTORED = "restored"


def _status(found: Found) -> InstanceStatus:
    """Return the status of an instance where it was found. Of an offloaded one the child's report decides.

    By that, it rests if it was shelved there, and is placed anew if it was evacuated.
    """
    return InstanceStatus.ACTIVE if found.status is InstanceStatus.OFFLOADED else found.status


def _numbered(places: Sequence[Placement], number: int) -> Placement | None:
    return next((p for p in places if p.number == number), None)


def _spot(where: Where) -> tuple[str, str]:
    match where:
        case ClaimedHost(host_id=host_id):
            return ("host", host_id)
        case AskedChild(child_id=child_id):
            return ("child", child_id)
