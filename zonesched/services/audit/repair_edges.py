"""Repair of inconsistencies between this zone and a child: for running instances, the child's rows count.

Only rows of this zone are written; pending calls, which are repeated anyway, take them to the child.
A row that has moved since the comparison is left as it is. No child is asked to delete an instance for a
place in another child, unless that one has said that the instance lives there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zonesched.model.inconsistency import Left, OfAttempt, Repaired, RepairResult
from zonesched.model.observed_state import Power
from zonesched.model.placement import (
    BELIEVED_LOST,
    FINAL,
    LIVING_STATUSES,
    LOST_IN_RESTORE,
    WANTED,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.services.audit.edge_comparison import Unlike
from zonesched.services.audit.repair_rows import CannotTell, Repair
from zonesched.services.children.changes import note_states
from zonesched.services.life.leaving import leave
from zonesched.services.placing.removed_children import removed
from zonesched.services.recovery import found_states
from zonesched.store import instance_states, instances, new_placements, placements, recovery
from zonesched.store.child_placements import PlaceInChild, lost_with_child, move_to_child
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, ClaimedHost, Placement

State = PlacementState
MOVED = "it has moved since it was compared: run it again"


def repair_edge(repair: Repair, unlike: Unlike) -> RepairResult:
    """Action of a repair on one inconsistency."""
    try:
        return Repaired(unlike.inconsistency, _REPAIRS[unlike.inconsistency.kind](repair, unlike))
    except CannotTell as doubt:
        return Left(unlike.inconsistency, str(doubt))


def _ask_again(repair: Repair, unlike: Unlike) -> str:
    raise CannotTell("run it again when the child answers")


def _end_here(repair: Repair, unlike: Unlike) -> str:
    """Set the instance to ERROR; if the child has it after all, a later repair restores it."""
    place, _ = _as_compared(repair, unlike)
    reason = "deleted_in_child" if unlike.below else "lost_in_child"
    placements.move(repair.tx, repair.change, place, State.RELEASED, reason=reason)
    instances.set_status(
        repair.tx,
        repair.change,
        [place.uuid],
        InstanceStatus.ERROR,
        repair.now,
        reason=reason,
        only_from=LIVING_STATUSES,
    )
    return f"the instance is ERROR {reason}"


def _restore_or_delete(repair: Repair, unlike: Unlike) -> str:
    """Restore an instance that its owner has or has lost, if it lives there.

    Delete one there that the owner deleted or has elsewhere, and what is left of one that has ended.
    """
    subject = unlike.inconsistency.subject
    assert isinstance(subject, OfAttempt) and unlike.below is not None
    instance = instances.read_by_uuid(repair.tx, [subject.uuid]).get(subject.uuid)
    if instance is None:
        raise CannotTell("its owner is unknown here: the child's admin may delete it")
    if removed(repair.zone.children, repair.tx, [subject.child_id]):
        raise CannotTell("the child was removed since it was compared: add it again, or its admin ends them")
    is_parents = instance.caller_id != repair.zone.uuid
    if is_parents and instance.status is InstanceStatus.DELETED and instance.reason == LOST_IN_RESTORE:
        raise CannotTell(
            "its parent may want it: `zonesched db restored` begins another recovery, in which it says so;"
            " or the child's admin may delete it"
        )
    repair.leave_to_worker(instance.caller_id, instance.reservation_id)
    places = placements.read_by_uuid(repair.tx, [subject.uuid])
    if any(_is_open(p, subject) for p in places):
        # No comparison calls this unknown: another repair was quicker.
        raise CannotTell(MOVED)
    others = [p for p in places if p.state in WANTED]
    if unlike.below.status not in LIVING_STATUSES:
        _put(repair, subject, instance, places, State.RELEASING)
        if _was_shelved(unlike.below) and _is_believed_lost(instance) and not others:
            _restore(repair, subject, instance, unlike.below)
            return "the instance rests, and the child is asked to delete what is left of it"
        return "the child is asked to delete what is left of it"
    if not others and (_is_wanted(instance) or _was_unshelved(repair, instance, subject, places)):
        _put(repair, subject, instance, places, State.CONFIRMING)
        _restore(repair, subject, instance, unlike.below)
        return f"the instance is restored as {unlike.below.status.value}, and confirmed once more"
    if _is_wanted(instance) and not any(_is_certain(p, unlike) for p in others):
        raise CannotTell("its other place is in a child zone that has not confirmed it: run it again")
    _put(repair, subject, instance, places, State.RELEASING)
    return "the child is asked to delete it"


def _is_open(place: Placement, subject: OfAttempt) -> bool:
    in_that_child = isinstance(place.where, AskedChild) and place.where.child_id == subject.child_id
    return in_that_child and place.number == subject.attempt and place.state not in FINAL


def _is_certain(place: Placement, unlike: Unlike) -> bool:
    return isinstance(place.where, ClaimedHost) or place.number in unlike.confirmed


def _is_wanted(instance: Instance) -> bool:
    return _is_believed_lost(instance) or instance.status in LIVING_STATUSES


def _is_believed_lost(instance: Instance) -> bool:
    return instance.status is InstanceStatus.ERROR and instance.reason in BELIEVED_LOST


def _was_unshelved(
    repair: Repair, instance: Instance, subject: OfAttempt, places: Sequence[Placement]
) -> bool:
    """Tell whether restored rows have a shelved instance, and lack the later place that it has got since."""
    is_later = all(p.number < subject.attempt for p in places)
    return instance.status is InstanceStatus.OFFLOADED and is_later and recovery.incarnation(repair.tx) != ""


def _was_shelved(theirs: InstanceChange) -> bool:
    """Tell whether nothing is left of an instance in the child since it was shelved or evacuated there."""
    is_offloaded = theirs.observed is not None and theirs.observed.power is Power.OFFLOADED
    return theirs.status is InstanceStatus.OFFLOADED and is_offloaded


def _put(
    repair: Repair, subject: OfAttempt, instance: Instance, places: list[Placement], state: PlacementState
) -> None:
    """Set the placement of that attempt to `state` from any other one; write it if it is missing."""
    here = [p for p in places if p.number == subject.attempt]
    if not here:
        place = Placement(
            uuid=subject.uuid,
            number=subject.attempt,
            caller_id=instance.caller_id,
            reservation_id=instance.reservation_id,
            where=AskedChild(subject.child_id, ()),
            state=state,
            reason="repaired",
            hold_expires_at=repair.now,
            retained_until=repair.now,
        )
        new_placements.insert(repair.tx, [place])
        return
    (place,) = here
    if place.key in lost_with_child(repair.tx, [place.uuid]):
        move_to_child(repair.tx, place, subject.child_id)
    elif not isinstance(place.where, AskedChild) or place.where.child_id != subject.child_id:
        raise CannotTell("this attempt was sent elsewhere: the child's admin may delete it")
    placements.move(
        repair.tx, repair.change, place, state, reason="repaired", next_call_at=repair.now, repair=True
    )


def _restore(repair: Repair, subject: OfAttempt, instance: Instance, theirs: InstanceChange) -> None:
    attempts = {subject.uuid: subject.attempt}
    instances.set_attempts(repair.tx, repair.change, attempts, theirs.status, repair.now)
    state = instance_states.read(repair.tx, [subject.uuid]).get(subject.uuid)
    if state is not None and subject.attempt > instance.attempt:
        found_states.note_later_place(repair.tx, state, repair.now, in_child=True)
    # The child's feed told this while the instance was thought to be lost, and tells it once.
    known = instance_states.read(repair.tx, [subject.uuid])
    built_at = {subject.uuid: repair.now}
    note_states(repair.tx, repair.change, [theirs], known, built_at, repair.now, given_back={})


def _believe(repair: Repair, unlike: Unlike) -> str:
    """Set the instance to the status that the child reports."""
    place, instance = _as_compared(repair, unlike)
    assert unlike.below is not None
    if unlike.below.status is InstanceStatus.OFFLOADED and not _is_to_be_shelved(repair, place.uuid):
        # The child has nothing left of it: what was under way there ends, as where a child evacuates one.
        zone_uuid, rests = repair.zone.uuid, [place.uuid]
        leave(repair.tx, repair.change, zone_uuid, [place], repair.now, user_id=zone_uuid, resting=rests)
    instances.set_status(
        repair.tx,
        repair.change,
        [place.uuid],
        unlike.below.status,
        repair.now,
        reason=unlike.below.reason,
        only_from=[instance.status],
    )
    return f"the instance is {unlike.below.status.value}, as the child reports"


def _is_to_be_shelved(repair: Repair, uuid: str) -> bool:
    stored = instance_states.read(repair.tx, [uuid]).get(uuid)
    return stored is not None and stored.state.desired.power is Power.OFFLOADED


def _as_compared(repair: Repair, unlike: Unlike) -> tuple[Placement, Instance]:
    """Read the placement and the instance. Raises CannotTell if either has moved since the comparison."""
    subject = unlike.inconsistency.subject
    assert isinstance(subject, OfAttempt) and unlike.here is not None
    for place in placements.read_by_uuid(repair.tx, [subject.uuid]):
        if place.number == subject.attempt:
            instance = instances.read_by_uuid(repair.tx, [subject.uuid])[subject.uuid]
            if _still(unlike.here, place, instance):
                repair.leave_to_worker(instance.caller_id, instance.reservation_id)
                return place, instance
    raise CannotTell(MOVED)


def _still(seen: PlaceInChild, place: Placement, instance: Instance) -> bool:
    return (seen.state, seen.status) == (place.state, instance.status) and instance.attempt == seen.number


_REPAIRS: dict[str, Callable[[Repair, Unlike], str]] = {
    "child_not_compared": _ask_again,
    "child_lacks_instance": _end_here,
    "child_has_unknown_instance": _restore_or_delete,
    "status_differs": _believe,
}
EDGE_KINDS = tuple(_REPAIRS)
"""Kinds in the order of their repair: an empty place is ended before its instance is taken back."""
