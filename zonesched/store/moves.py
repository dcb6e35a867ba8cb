"""Moves of instances between local hosts; they step only as `model.move_steps` allows.

Writers lock the instances (`store.locks`) before they read the rows that they write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.decision_trace import NO_TRACE, DecisionTrace, trace_from_wire, trace_to_wire
from zonesched.model.move_steps import LIVING_MOVES, STEPS, IllegalStep, MoveKind, MoveState, MoveStep
from zonesched.model.placement import InstanceStatus
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of
from zonesched.store.unknown_marker import UnknownMarker

COLUMNS = t.moves.c
_NEWEST_FIRST = (COLUMNS.created_at.desc(), COLUMNS.uuid, COLUMNS.from_number.desc(), COLUMNS.id)
"""Order of lists: moves that begin in one transaction have one time, and ids are random."""

_INSERT = Prepared(sa.insert(t.moves))
_LIVING = Prepared(
    sa.select(t.moves).where(one_of(COLUMNS.uuid, "uuids"), t.MOVE_IS_LIVING).order_by(COLUMNS.uuid)
)
_OF_INSTANCE = Prepared(
    sa.select(t.moves).where(COLUMNS.uuid == sa.bindparam("uuid")).order_by(*_NEWEST_FIRST)
)
_TURN = sa.func.row_number().over(
    partition_by=(t.instances.c.caller_id, t.instances.c.project_id),
    order_by=(COLUMNS.next_step_at, COLUMNS.id),
)
"""Counts the due moves of one project: the first ones of all projects come first."""
_DUE = Prepared(
    sa.select(t.moves)
    .join(t.instances, t.instances.c.uuid == COLUMNS.uuid)
    .where(COLUMNS.next_step_at <= sa.bindparam("now"), t.MOVE_IS_LIVING)
    .order_by(_TURN, COLUMNS.next_step_at, COLUMNS.id)
    .limit(sa.bindparam("max_rows"))
)
IS_HELD_FOR_A_MOVE = (
    sa.select(COLUMNS.id)
    .where(COLUMNS.uuid == t.placements.c.uuid, COLUMNS.to_number == t.placements.c.number, t.MOVE_IS_LIVING)
    .exists()
)
"""Tells of a placement that it is the new place of a living move, whose own time limit ends it."""
RETURNS_FROM_IT = (
    sa.select(COLUMNS.id)
    .where(COLUMNS.uuid == t.placements.c.uuid, COLUMNS.to_number == t.placements.c.number)
    .where(COLUMNS.state == MoveState.RETURNING.value)
    .exists()
)
"""Tells of a placement that a server returns from it to its old host, once nothing of it is left there."""
_instance, _state = t.instances.c, t.instance_states.c
_HAS_ENDED = (
    one_of(COLUMNS.uuid, "uuids"),
    t.MOVE_IS_LIVING,
    sa.select(_instance.uuid)
    .where(_instance.uuid == COLUMNS.uuid, _instance.status == sa.bindparam("b_status"))
    .exists(),
)
_ENDED_WITH = Prepared(sa.select(COLUMNS.uuid).where(*_HAS_ENDED))
# OpenStack Nova confirms a resize before it deletes the server.
_IS_DELETED_RESIZED = sa.and_(
    COLUMNS.state == MoveState.VERIFYING.value, sa.bindparam("b_status") == InstanceStatus.DELETED.value
)
_END_WITH = Prepared(
    sa.update(t.moves)
    .where(*_HAS_ENDED)
    .values(
        state=sa.case((_IS_DELETED_RESIZED, MoveState.DONE.value), else_=MoveState.FAILED.value),
        reason=sa.case((_IS_DELETED_RESIZED, ""), else_=sa.bindparam("b_reason")),
        updated_at=sa.bindparam("now"),
        steps=COLUMNS.steps + 1,
    )
)
_COUNT_AS_ENDED = Prepared(
    sa.update(t.instance_states).where(one_of(_state.uuid, "uuids")).values(moves_ended=_state.moves_begun)
)
_LAST_NUMBERS = Prepared(
    sa.select(t.placements.c.uuid, sa.func.max(t.placements.c.number).label("number"))
    .where(one_of(t.placements.c.uuid, "uuids"))
    .group_by(t.placements.c.uuid)
)
_CHANGING = (
    "state",
    "to_number",
    "dest_host",
    "selects",
    "reason",
    "why",
    "updated_at",
    "next_step_at",
)
_STEP = Prepared(
    sa.update(t.moves)
    .where(COLUMNS.id == sa.bindparam("b_id"), COLUMNS.steps == sa.bindparam("b_steps"))
    .values({name: sa.bindparam(f"b_{name}") for name in _CHANGING} | {"steps": COLUMNS.steps + 1})
)


@dataclass(frozen=True)
class Move:
    """One row. `to_number` is 0 until the new place is claimed.

    Names of hosts are "" where they are not known; `asked_host`: the host that an admin named, "" for any.
    `action`: number of the instance's action that began it, or `generation` of the desired state that did,
    and the other is 0. `selects`: how often a host was looked for. `steps`: a count by which a late step is
    refused. Times are epoch seconds.
    """

    id: str
    uuid: str
    kind: MoveKind
    state: MoveState
    from_number: int
    source_host: str
    asked_host: str
    action: int
    created_at: float
    updated_at: float
    next_step_at: float
    to_number: int = 0
    dest_host: str = ""
    generation: int = 0
    selects: int = 0
    steps: int = 0
    reason: str = ""
    why: DecisionTrace = NO_TRACE

    @property
    def is_living(self) -> bool:
        return self.state in LIVING_MOVES


@dataclass(frozen=True)
class MovePage:
    """Query of one page of moves; "" leaves a filter out, and so does a time of 0. `host`: of either end."""

    states: Sequence[MoveState]
    kinds: Sequence[MoveKind]
    uuid: str
    user_id: str
    project_id: str
    host: str
    source_host: str
    changed_since: float
    changed_before: float
    marker: str
    limit: int


def insert(tx: Connection, move: Move) -> None:
    """Add a row; raises IntegrityError where the instance has a living move."""
    _INSERT.run(tx, **_to_row(move))


def living(tx: Connection, uuids: Sequence[str]) -> Mapping[str, Move]:
    """Read the living moves of these instances, by uuid."""
    return {row.uuid: _from_row(row) for row in _LIVING.all(tx, uuids=uuids)} if uuids else {}


def of_instance(tx: Connection, uuid: str) -> list[Move]:
    """Read an instance's moves, newest first."""
    return [_from_row(row) for row in _OF_INSTANCE.all(tx, uuid=uuid)]


def latest(tx: Connection, wanted: MovePage) -> list[Move]:
    """Read the newest moves that are wanted, those of the same time by instance.

    Raises UnknownMarker for a marker that names no move.
    """
    conditions: list[sa.ColumnElement[bool]] = [
        COLUMNS.state.in_([state.value for state in wanted.states]),
        COLUMNS.kind.in_([kind.value for kind in wanted.kinds]),
    ]
    if wanted.uuid:
        conditions.append(COLUMNS.uuid == wanted.uuid)
    for column, value in ((_instance.user_id, wanted.user_id), (_instance.project_id, wanted.project_id)):
        if value:
            conditions.append(COLUMNS.uuid.in_(sa.select(_instance.uuid).where(column == value)))
    if wanted.host:
        conditions.append(sa.or_(COLUMNS.source_host == wanted.host, COLUMNS.dest_host == wanted.host))
    if wanted.source_host:
        conditions.append(COLUMNS.source_host == wanted.source_host)
    if wanted.changed_since:
        conditions.append(COLUMNS.updated_at >= wanted.changed_since)
    if wanted.changed_before:
        conditions.append(COLUMNS.updated_at <= wanted.changed_before)
    if wanted.marker:
        conditions.append(_behind(tx, wanted.marker))
    statement = sa.select(t.moves).where(*conditions).order_by(*_NEWEST_FIRST).limit(wanted.limit)
    return [_from_row(row) for row in tx.execute(statement)]


def _behind(tx: Connection, marker: str) -> sa.ColumnElement[bool]:
    """Make the condition that a move comes after another one in lists."""
    at = tx.execute(sa.select(t.moves).where(COLUMNS.id == marker)).first()
    if at is None:
        raise UnknownMarker(marker)
    later = sa.or_(
        COLUMNS.uuid > at.uuid,
        sa.and_(
            COLUMNS.uuid == at.uuid,
            sa.or_(
                COLUMNS.from_number < at.from_number,
                sa.and_(COLUMNS.from_number == at.from_number, COLUMNS.id > at.id),
            ),
        ),
    )
    # An index begins to read there. With two comparisons that it can look up, newer releases of SQLite would
    # read both whole, and sort them.
    return sa.and_(COLUMNS.created_at <= at.created_at, sa.or_(COLUMNS.created_at != at.created_at, later))


def last_numbers(tx: Connection, uuids: Sequence[str]) -> Mapping[str, int]:
    """Read the highest number of the placements of each of these instances; a failed move may have had it."""
    return {row.uuid: row.number for row in _LAST_NUMBERS.all(tx, uuids=uuids)} if uuids else {}


def due(tx: Connection, now: float, limit: int) -> list[Move]:
    """Read at most `limit` living moves that a worker may take a step with now, of all projects in turn."""
    return [_from_row(row) for row in _DUE.all(tx, now=now, max_rows=limit)]


def step(tx: Connection, move: Move, **changes: Any) -> Move | None:
    """Store a move with these changes; None, with nothing written, where it has stepped on since it was read.

    A move that stays in its state may do so. Raises IllegalStep for a step that is not in `move_steps`.
    """
    after = replace(move, **changes)
    if after.state is not move.state and MoveStep(move.state, after.state) not in STEPS:
        raise IllegalStep(f"A move was to step from {move.state.value} to {after.state.value}.")
    row = _to_row(after)
    values = {f"b_{name}": row[name] for name in _CHANGING}
    if not _STEP.run(tx, b_id=move.id, b_steps=move.steps, **values):
        return None
    return replace(after, steps=move.steps + 1)


def end_with_instances(
    tx: Connection, uuids: Sequence[str], status: InstanceStatus, reason: str, now: float
) -> None:
    """End the living moves of those of these instances that have this status; their places end elsewhere."""
    ended = [row.uuid for row in _ENDED_WITH.all(tx, uuids=uuids, b_status=status.value)]
    if ended:
        _END_WITH.run(tx, uuids=ended, b_status=status.value, b_reason=reason, now=now)
        _COUNT_AS_ENDED.run(tx, uuids=ended)


def _to_row(move: Move) -> dict[str, Any]:
    why = orjson.dumps(trace_to_wire(move.why)).decode()
    return dict(vars(move)) | {"kind": move.kind.value, "state": move.state.value, "why": why}


def _from_row(row: Any) -> Move:
    fields = {name: getattr(row, name) for name in COLUMNS.keys()}  # noqa: SIM118 - a collection of columns
    return Move(
        **fields
        | {
            "kind": MoveKind(row.kind),
            "state": MoveState(row.state),
            "why": trace_from_wire(orjson.loads(row.why)),
        }
    )
