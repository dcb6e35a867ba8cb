"""Inconsistencies of actions and desired states."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.desired_state import Result
from zonesched.model.inconsistency import Inconsistency, OfInstance
from zonesched.model.placement import ENDED_STATUSES, InstanceStatus
from zonesched.store import instance_actions
from zonesched.store import tables as t
from zonesched.store.prepared import is_in

_action, _state, _instance = t.instance_actions.c, t.instance_states.c, t.instances.c
_move = t.moves.c
_IS_OPEN = _action.finished_at == 0.0
_HAS_MOVE = sa.select(_move.id).where(
    _move.uuid == _action.uuid, _move.action == _action.number, t.MOVE_IS_LIVING
)
_END_WITHOUT_MOVE = (
    sa.update(t.instance_actions)
    .where(_action.uuid == sa.bindparam("b_uuid"), _action.generation == 0, _IS_OPEN)
    .where(~_HAS_MOVE.exists())
    .values(finished_at=sa.bindparam("now"), result=Result.ERROR.value, reason="repaired")
)


def action_open(tx: Connection) -> list[Inconsistency]:
    """Check that no action is open whose instance, generation or move has ended."""
    is_reached = sa.func.coalesce(_state.observed_generation, -1) >= _action.generation
    is_over = sa.case((_action.generation > 0, is_reached), else_=~_HAS_MOVE.exists())
    statement = (
        sa.select(_action.uuid, _instance.caller_id, sa.func.count().label("open"))
        .join(t.instances, _instance.uuid == _action.uuid)
        .outerjoin(t.instance_states, _state.uuid == _action.uuid)
        .where(_IS_OPEN, sa.or_(is_in(_instance.status, ENDED_STATUSES), is_over))
        .group_by(_action.uuid, _instance.caller_id)
    )
    return [
        Inconsistency(
            "action_open", OfInstance(row.uuid, row.caller_id), f"{row.open} actions are over and open"
        )
        for row in tx.execute(statement)
    ]


def end_open(tx: Connection, uuid: str, now: float) -> int:
    """End the open actions of one instance that are over; return how many."""
    row = tx.execute(
        sa.select(_instance.status, _instance.reason, _state.observed_generation, _state.observed_reason)
        .outerjoin(t.instance_states, _state.uuid == _instance.uuid)
        .where(_instance.uuid == uuid)
    ).one()
    before = _count_open(tx, uuid)
    if row.observed_generation is not None:
        instance_actions.reached(tx, {uuid: (row.observed_generation, row.observed_reason)}, now)
    tx.execute(_END_WITHOUT_MOVE, {"b_uuid": uuid, "now": now})
    status = InstanceStatus(row.status)
    if status in ENDED_STATUSES:
        reason = instance_actions.reason_of_end(status, row.reason)
        instance_actions.end_with_instances(tx, [uuid], status, reason, now)
    return before - _count_open(tx, uuid)


def _count_open(tx: Connection, uuid: str) -> int:
    statement = sa.select(sa.func.count()).select_from(t.instance_actions)
    return int(tx.execute(statement.where(_action.uuid == uuid, _IS_OPEN)).scalar_one())
