"""Times that were stored by a clock that has been set back since: all are brought near."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.move_steps import MoveState
from zonesched.model.placement import UNANSWERED, UNCONFIRMED, InstanceStatus
from zonesched.store import tables as t
from zonesched.store.moves import IS_HELD_FOR_A_MOVE
from zonesched.store.prepared import is_in
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


def bring_near(tx: Connection, longest: Longest, now: float) -> None:
    """Shorten what waits for longer than these times; what is said to begin later than now begins now."""

    def shorten(column: sa.Column[float], most_s: float, *rows: _Condition) -> None:
        until = now + most_s
        tx.execute(sa.update(column.table).where(*rows, column > until).values({column: until}))

    shorten(_place.next_call_at, longest.call_s, t.PLACE_IS_IN_MOTION, is_in(_place.state, UNANSWERED))
    is_held = is_in(_place.state, UNCONFIRMED)
    shorten(
        _place.hold_expires_at, longest.hold_s, t.PLACE_IS_IN_MOTION, is_held, sa.not_(IS_HELD_FOR_A_MOVE)
    )
    shorten(_state.next_call_at, longest.call_s, _state.told_generation < _state.generation)
    shorten(_state.resized_at, 0.0, sa.text("resized_at > 0"))
    is_open = _boot.state == ReservationState.OPEN.value
    shorten(_boot.lease_expires_at, longest.lease_s, is_open)
    shorten(_boot.next_work_at, longest.work_s, is_open)
    is_placing = _move.state == MoveState.PLACING.value
    shorten(_move.next_step_at, longest.lease_s, t.MOVE_IS_LIVING, is_placing)
    # A resize waits for its owner without end.
    is_timed = _move.state != MoveState.VERIFYING.value
    shorten(_move.next_step_at, longest.step_s, t.MOVE_IS_LIVING, is_timed)
    shorten(_instance.updated_at, 0.0, _instance.status == InstanceStatus.BUILD.value)
    shorten(_idle.updated_at, 0.0)
