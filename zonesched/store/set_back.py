"""Times that were stored by a clock that has been set back since: all are brought near."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.move_steps import MoveState
from zonesched.model.placement import UNANSWERED, UNCONFIRMED, InstanceStatus
from zonesched.store import tables as t
from zonesched.store.moves import IS_HELD_FOR_A_MOVE
from zonesched.store.prepared import Prepared, is_in
from zonesched.store.reservations import ReservationState

_place, _state, _boot = t.placements.c, t.instance_states.c, t.reservations.c
_move, _instance, _idle = t.moves.c, t.instances.c, t.idle_holds.c
_Condition = sa.ColumnElement[bool] | sa.TextClause


@dataclass(frozen=True)
class Longest:
    """The longest times, in seconds, that a zone stores ahead.

    Until a call is repeated, a hold ends, a boot is worked on, a lease ends, and an agent must have taken
    the step of a move.
    """

    call_s: float
    hold_s: float
    work_s: float
    lease_s: float
    step_s: float


def _shorten(column: sa.Column[float], *rows: _Condition) -> Prepared:
    """Return the statement that sets this time of these rows to `until` where it is later."""
    until = sa.bindparam("until", type_=sa.Float)
    return Prepared(sa.update(column.table).where(*rows, column > until).values({column: until}))


_IS_OPEN = _boot.state == ReservationState.OPEN.value
_IS_PLACING = _move.state == MoveState.PLACING.value
# A resize waits for its owner without end.
_IS_TIMED = _move.state != MoveState.VERIFYING.value
_CALLS = (
    _shorten(_place.next_call_at, t.PLACE_IS_IN_MOTION, is_in(_place.state, UNANSWERED)),
    _shorten(_state.next_call_at, _state.told_generation < _state.generation),
)
_HOLDS = (
    _shorten(
        _place.hold_expires_at,
        t.PLACE_IS_IN_MOTION,
        is_in(_place.state, UNCONFIRMED),
        sa.not_(IS_HELD_FOR_A_MOVE),
    ),
)
_WORK = (_shorten(_boot.next_work_at, _IS_OPEN),)
_LEASES = (
    _shorten(_boot.lease_expires_at, _IS_OPEN),
    _shorten(_move.next_step_at, t.MOVE_IS_LIVING, _IS_PLACING),
)
_STEPS = (_shorten(_move.next_step_at, t.MOVE_IS_LIVING, _IS_TIMED),)
_BEGINNINGS = (
    _shorten(_state.resized_at, sa.text("resized_at > 0")),
    _shorten(_instance.updated_at, _instance.status == InstanceStatus.BUILD.value),
    _shorten(_idle.updated_at),
)
_RECLAIMS = Prepared(
    sa.update(t.instance_states)
    .where(
        sa.text("reclaim_at > 0"),
        _state.reclaim_at > sa.bindparam("now", type_=sa.Float) + _state.reclaim_after,
    )
    .values(reclaim_at=sa.bindparam("now", type_=sa.Float) + _state.reclaim_after)
)
"""Servers that may be restored, each from now on for as long as from its delete on."""


def bring_near(tx: Connection, longest: Longest, now: float) -> None:
    """Shorten what waits for longer than these times; what is said to begin later than now begins now."""
    for statements, most_s in (
        (_CALLS, longest.call_s),
        (_HOLDS, longest.hold_s),
        (_WORK, longest.work_s),
        (_LEASES, longest.lease_s),
        (_STEPS, longest.step_s),
        (_BEGINNINGS, 0.0),
    ):
        for statement in statements:
            statement.send(tx, until=now + most_s)
    _RECLAIMS.send(tx, now=now)
