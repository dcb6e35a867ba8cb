"""Moves between local hosts that a recovery has found: their rows go on where the agents are with them."""

from __future__ import annotations

import math

from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.life import moving, resizing
from zonesched.services.life.observing import UNSURPRISING
from zonesched.services.recovery.decision import Known
from zonesched.services.zone import Zone
from zonesched.store import audit_moves, host_states, instances, moves, placements
from zonesched.store.moves import Move
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.recovery import Found, Kind
from zonesched.store.store import Transaction


def go_on(zone: Zone, tx: Transaction, change: int, known: Known, found: Found, now: float) -> None:
    """Park the place where the rows have an instance, until it is built at the present one, or returns.

    The rows may have its move from the old place; another one that they have is over, and one that they lack
    counts as a migration. What its agent has built there has arrived: the owner of a resize, who has seen
    that, may confirm or revert it before the agent speaks again.
    """
    assert known.place is not None
    placements.move(tx, change, known.place, PlacementState.PARKED)
    move = moves.living(tx, [found.uuid]).get(found.uuid)
    if move is not None and not _is_that(move, known.place):
        audit_moves.end_broken(tx, found.uuid, now)
        move = None
    if move is None:
        move = _migration(zone, tx, known.place, now)
        (instance,) = instances.read_by_uuid(tx, [found.uuid]).values()
        moving.begin(tx, change, instance, move, now)
    arriving = _arriving(tx, move, found, now, now + zone.conf.instance_build_timeout)
    if found.status is InstanceStatus.ACTIVE:
        moving.arrive(tx, change, arriving, found.observed or UNSURPRISING, now)


def finish(tx: Transaction, change: int, known: Known, found: Found, now: float) -> None:
    """End the migration of the rows that has brought an instance to where it was found, and built."""
    move = moves.living(tx, [found.uuid]).get(found.uuid)
    is_built = found.kind is Kind.AGENT and found.status is InstanceStatus.ACTIVE
    if move is None or known.place is None or not is_built or not _is_that(move, known.place):
        return
    # A resize that has ended since was confirmed, reverted or lost: its repair tells by the claims.
    if move.kind is MoveKind.MIGRATION:
        moving.end(tx, change, _arriving(tx, move, found, now, math.inf), MoveState.DONE, "", now)


def confirm(tx: Transaction, change: int, found: Found, now: float) -> None:
    """Leave the old place of a move to where an instance was found; a resize counts as confirmed."""
    places = placements.read_by_uuid(tx, [found.uuid])
    parked = [p for p in places if p.state is PlacementState.PARKED and p.number < found.number]
    placements.move_all(tx, change, parked, PlacementState.RELEASING, reason="moved")
    move = moves.living(tx, [found.uuid]).get(found.uuid)
    if move is not None and move.to_number == found.number:
        if move.kind is MoveKind.MIGRATION:
            moving.end(tx, change, move, MoveState.DONE, "", now)
        elif moves.step(tx, move, state=MoveState.DONE, updated_at=now) is not None:
            audit_moves.recount(tx, found.uuid)
            resizing.end_without_move(tx, change, found.uuid, now)


def _arriving(tx: Transaction, move: Move, found: Found, now: float, due_at: float) -> Move:
    host = _name_of(tx, found.host_id)
    number = found.number
    left = moves.step(tx, move, state=MoveState.LEAVING, to_number=number, dest_host=host, updated_at=now)
    assert left is not None
    after = moves.step(tx, left, state=MoveState.ARRIVING, updated_at=now, next_step_at=due_at)
    assert after is not None
    return after


def _is_that(move: Move, old: Placement) -> bool:
    is_begun = move.state in (MoveState.PLACING, MoveState.LEAVING)
    return is_begun and move.from_number == old.number


def _migration(zone: Zone, tx: Transaction, old: Placement, now: float) -> Move:
    assert isinstance(old.where, ClaimedHost)
    return Move(
        id=zone.clock.new_uuid(),
        uuid=old.uuid,
        kind=MoveKind.MIGRATION,
        state=MoveState.PLACING,
        from_number=old.number,
        source_host=_name_of(tx, old.where.host_id),
        asked_host="",
        # No action of the rows began it.
        action=0,
        created_at=now,
        updated_at=now,
        next_step_at=now,
    )


def _name_of(tx: Transaction, host_id: str) -> str:
    host = host_states.read_one(tx, host_id)
    return host.name if host is not None else ""
