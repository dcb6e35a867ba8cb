"""Repair of moves: a broken one ends, and its instance stays where it may run."""

from __future__ import annotations

from zonesched.model.inconsistency import Inconsistency, OfInstance
from zonesched.model.placement import LIVING_STATUSES, PlacementState
from zonesched.services.audit.repair_rows import CannotTell, Repair
from zonesched.services.life import resizing
from zonesched.store import audit_moves, instances, placements

State = PlacementState


def end_broken(repair: Repair, found: Inconsistency) -> str:
    """End the move; a place that was only held for it is given back."""
    assert isinstance(found.subject, OfInstance)
    move = audit_moves.end_broken(repair.tx, found.subject.uuid, repair.now)
    if move is None:
        return ""
    held = [
        p
        for p in placements.read_by_uuid(repair.tx, [move.uuid])
        if p.number == move.to_number and p.state is State.HELD
    ]
    placements.move_all(repair.tx, repair.change, held, State.GONE, reason="repaired")
    (instance,) = instances.read_by_uuid(repair.tx, [move.uuid]).values()
    if instance.status in LIVING_STATUSES:
        # Not compared while it is being built, after which it would be shown as moving.
        recount(repair, found)
    return "the move is ended"


def settle_parked(repair: Repair, found: Inconsistency) -> str:
    """Let an instance run at its parked place if it has no other; else the agent ends what is left there."""
    assert isinstance(found.subject, OfInstance)
    uuid = found.subject.uuid
    places = placements.read_by_uuid(repair.tx, [uuid])
    parked = [p for p in places if p.state is State.PARKED]
    instance = instances.read_by_uuid(repair.tx, [uuid]).get(uuid)
    is_wanted = instance is not None and instance.status in LIVING_STATUSES
    if not parked:
        return ""
    if is_wanted and any(p.state is State.RELEASING for p in places):
        raise CannotTell("it may still run at the place that its agent is to release")
    is_elsewhere = any(p.state is State.CONFIRMED for p in places)
    if instance is None or not is_wanted or is_elsewhere:
        placements.move_all(repair.tx, repair.change, parked, State.RELEASING, reason="repaired")
        return "its agent ends what is left at the parked place"
    kept, *others = parked
    placements.move(repair.tx, repair.change, kept, State.CONFIRMED)
    placements.move_all(repair.tx, repair.change, others, State.RELEASING, reason="repaired")
    instances.set_attempts(repair.tx, repair.change, {uuid: kept.number}, instance.status, repair.now)
    return f"the instance is at place {kept.number} again"


def make_due(repair: Repair, found: Inconsistency) -> str:
    """Let a worker take the next step now."""
    assert isinstance(found.subject, OfInstance)
    audit_moves.make_due(repair.tx, found.subject.uuid, repair.now)
    return "the move is due now"


def recount(repair: Repair, found: Inconsistency) -> str:
    """Count the moves by the one that is under way, if any; a resize without one ends."""
    assert isinstance(found.subject, OfInstance)
    audit_moves.recount(repair.tx, found.subject.uuid)
    resizing.end_without_move(repair.tx, repair.change, found.subject.uuid, repair.now)
    return "the counts are those of its moves"
