"""Inconsistencies of moves: their places, their counts, and steps that are overdue."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.inconsistency import Inconsistency, OfInstance
from zonesched.model.move_steps import MoveState
from zonesched.model.observed_state import Power
from zonesched.model.placement import LIVING_STATUSES, InstanceStatus, PlacementState
from zonesched.store import moves, placements
from zonesched.store import tables as t
from zonesched.store.moves import Move
from zonesched.store.prepared import unindexed

State = PlacementState
_place, _instance, _move = t.placements.c, t.instances.c, t.moves.c
_counts = t.instance_states.c

IN_MOVE = (
    sa.select(_move.id)
    .where(_move.uuid == _place.uuid, t.MOVE_IS_LIVING)
    .where(sa.or_(_move.from_number == _place.number, _move.to_number == _place.number))
    .correlate(t.placements)
    .exists()
)
"""Condition: a placement is the old or the new place of a living move."""

_States = Collection[PlacementState | None]
_PLACES: Mapping[MoveState, tuple[_States, _States]] = {
    MoveState.PLACING: ({State.CONFIRMED}, {None}),
    # The hold has expired, and the next step ends the move.
    MoveState.LEAVING: ({State.CONFIRMED}, {State.HELD, State.GONE}),
    MoveState.ARRIVING: ({State.PARKED}, {State.CONFIRMED}),
    MoveState.VERIFYING: ({State.PARKED}, {State.CONFIRMED}),
    MoveState.RETURNING: ({State.PARKED}, {State.RELEASING, State.RELEASED}),
}
"""States of the old and the new place in each state of a living move; None for no place."""


def move_inconsistencies(tx: Connection, overdue_before: float) -> Iterator[Inconsistency]:
    """Find moves whose places or instance contradict them, that stand still, or that are miscounted."""
    for row in tx.execute(_LIVING):
        move = moves.living(tx, [row.uuid])[row.uuid]
        subject = OfInstance(row.uuid, row.caller_id)
        if row.status not in {status.value for status in LIVING_STATUSES}:
            yield Inconsistency("move_broken", subject, f"it moves, and is {row.status}")
        elif wrong := _wrong_places(tx, move, row.attempt):
            yield Inconsistency("move_broken", subject, wrong)
        elif move.next_step_at < overdue_before:
            detail = f"its move is {move.state.value}, due since {move.next_step_at:.0f}"
            yield Inconsistency("move_overdue", subject, detail)
    for row in tx.execute(_STRAY):
        subject = OfInstance(row.uuid, row.caller_id)
        yield Inconsistency("parked_without_move", subject, f"place {row.number} is parked for no move")
    for row in tx.execute(_MISCOUNTED):
        counted = f"{row.moves_begun} moves have begun, {row.moves_ended} ended"
        if row.moves_begun == row.moves_ended:
            counted = "its resize has no move"
        yield Inconsistency("moves_differ", OfInstance(row.uuid, row.caller_id), counted)


def _wrong_places(tx: Connection, move: Move, attempt: int) -> str:
    """Tell which place of a living move is in a wrong state; "" for none."""
    states = {p.number: p.state for p in placements.read_by_uuid(tx, [move.uuid])}
    old, new = states.get(move.from_number), states.get(move.to_number)
    olds, news = _PLACES[move.state]
    has_arrived = move.state in (MoveState.ARRIVING, MoveState.VERIFYING)
    is_at = move.to_number if has_arrived else move.from_number
    if old in olds and new in news and attempt == is_at:
        return ""
    return f"its move is {move.state.value}, its places are {_name(old)} and {_name(new)}, at {attempt}"


def _name(state: PlacementState | None) -> str:
    return "missing" if state is None else state.value


_LIVING: sa.Select[Any] = (
    sa.select(_move.uuid, _instance.caller_id, _instance.status, _instance.attempt)
    .join(t.instances, _instance.uuid == _move.uuid)
    .where(t.MOVE_IS_LIVING)
    .order_by(_move.uuid)
)
_STRAY: sa.Select[Any] = (
    sa.select(_place.uuid, _place.number, _place.caller_id)
    .where(t.PLACE_IS_IN_MOTION, _place.state == State.PARKED.value, sa.not_(IN_MOVE))
    .order_by(_place.uuid)
)
_HAS_MOVE = (
    sa.select(_move.id).where(_move.uuid == _counts.uuid, t.MOVE_IS_LIVING).correlate(t.instance_states)
)
_IS_HERE = (
    sa.select(_place.uuid)
    .where(_place.uuid == _instance.uuid, _place.number == _instance.attempt, _place.kind == "host")
    .correlate(t.instances)
)
_IS_RESIZED = sa.and_(
    # One that is being shelved forgets its resizes once it rests.
    _counts.power != Power.OFFLOADED.value,
    sa.or_(
        _counts.resizes_begun != _counts.observed_resizes_begun,
        _counts.resizes_confirmed != _counts.observed_resizes_confirmed,
        _counts.resizes_reverted != _counts.observed_resizes_reverted,
        _counts.observed_resizes_begun
        != _counts.observed_resizes_confirmed + _counts.observed_resizes_reverted,
    ),
)
"""Condition: a resize is under way, or waits for its owner."""
# Those of an instance in a child are the child's to count. Not by the status: nearly all are ACTIVE.
_MISCOUNTED: sa.Select[Any] = (
    sa.select(_counts.uuid, _instance.caller_id, _counts.moves_begun, _counts.moves_ended)
    .join(t.instances, _instance.uuid == _counts.uuid)
    .where(unindexed(_instance.status) == InstanceStatus.ACTIVE.value, _IS_HERE.exists())
    .where(
        sa.or_(
            sa.and_(_HAS_MOVE.exists(), _counts.moves_begun <= _counts.moves_ended),
            sa.and_(~_HAS_MOVE.exists(), sa.or_(_counts.moves_begun != _counts.moves_ended, _IS_RESIZED)),
        )
    )
    .order_by(_counts.uuid)
)


def end_broken(tx: Connection, uuid: str, now: float) -> Move | None:
    """End the living move of an instance, whatever its state; return it as it was."""
    move = moves.living(tx, [uuid]).get(uuid)
    if move is not None:
        values = {"state": MoveState.FAILED.value, "reason": "repaired", "updated_at": now}
        tx.execute(sa.update(t.moves).where(_move.id == move.id).values(steps=_move.steps + 1, **values))
    return move


def make_due(tx: Connection, uuid: str, now: float) -> None:
    """Let a worker take the next step of an instance's living move now."""
    tx.execute(sa.update(t.moves).where(_move.uuid == uuid, t.MOVE_IS_LIVING).values(next_step_at=now))


def recount(tx: Connection, uuid: str) -> None:
    """Set the counts of an instance's moves by its living move."""
    is_moving = bool(moves.living(tx, [uuid]))
    ended = _counts.moves_begun - 1 if is_moving else _counts.moves_begun
    begun = sa.case((_counts.moves_begun > 0, _counts.moves_begun), else_=1 if is_moving else 0)
    counts = t.instance_states
    tx.execute(sa.update(counts).where(_counts.uuid == uuid).values(moves_begun=begun))
    tx.execute(sa.update(counts).where(_counts.uuid == uuid).values(moves_ended=ended))
