"""Actions that this zone took, each of which ends once, and the locks of instances."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.desired_state import Result
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.store import outcomes
from zonesched.store import tables as t
from zonesched.store.outcomes import ActionsEnded
from zonesched.store.prepared import Prepared, is_in, one_of

KEPT_PER_INSTANCE = 100
"""Ended actions beyond this number are deleted, the oldest first."""

COLUMNS = t.instance_actions.c
_LEFT = frozenset({PlacementState.RELEASING, PlacementState.RELEASED})
_lock, _instance = t.instance_locks.c, t.instances.c
_INSERT = Prepared(sa.insert(t.instance_actions))
_IS_OPEN = COLUMNS.finished_at == 0.0
# Others end in other ways: a move with its own row.
_HAS_GENERATION = COLUMNS.generation > 0
_COUNTS = Prepared(
    sa.select(
        COLUMNS.uuid,
        sa.func.min(COLUMNS.number).label("first"),
        sa.func.max(COLUMNS.number).label("last"),
        sa.func.sum(sa.case((_IS_OPEN, 1), else_=0)).label("open"),
    )
    .where(one_of(COLUMNS.uuid, "uuids"))
    .group_by(COLUMNS.uuid)
)
_NAMES = Prepared(
    sa.select(COLUMNS.uuid, COLUMNS.action)
    .where(one_of(COLUMNS.uuid, "uuids"), COLUMNS.generation > 0)
    .order_by(COLUMNS.number)
)
_FORGET = Prepared(
    sa.delete(t.instance_actions).where(
        COLUMNS.uuid == sa.bindparam("b_uuid"),
        COLUMNS.number <= sa.bindparam("b_until"),
        COLUMNS.finished_at > 0.0,
    )
)
_OF_INSTANCE = Prepared(
    sa.select(t.instance_actions).where(COLUMNS.uuid == sa.bindparam("uuid")).order_by(COLUMNS.number.desc())
)
_END: dict[str, Any] = {
    "finished_at": sa.bindparam("now"),
    "result": sa.bindparam("b_result"),
    "reason": sa.bindparam("b_reason"),
}
_SUPERSEDE = Prepared(
    sa.update(t.instance_actions)
    .where(COLUMNS.uuid == sa.bindparam("b_uuid"), _IS_OPEN, _HAS_GENERATION)
    .where(COLUMNS.generation < sa.bindparam("b_generation"))
    .values(_END)
)
_FINISH = Prepared(
    sa.update(t.instance_actions)
    .where(COLUMNS.uuid == sa.bindparam("b_uuid"), _IS_OPEN, _HAS_GENERATION)
    .where(COLUMNS.generation == sa.bindparam("b_generation"))
    .values(_END)
)
_END_ONE = Prepared(
    sa.update(t.instance_actions)
    .where(COLUMNS.uuid == sa.bindparam("b_uuid"), COLUMNS.number == sa.bindparam("b_number"), _IS_OPEN)
    .values(_END)
)
_END_WITH_INSTANCE = Prepared(
    sa.update(t.instance_actions)
    .where(one_of(COLUMNS.uuid, "uuids"), _IS_OPEN)
    .where(
        sa.select(_instance.uuid)
        .where(_instance.uuid == COLUMNS.uuid, _instance.status == sa.bindparam("b_status"))
        .exists()
    )
    .values(_END)
)
_LOCKS = Prepared(sa.select(t.instance_locks).where(one_of(_lock.uuid, "uuids")))
_UNLOCK = Prepared(sa.delete(t.instance_locks).where(one_of(_lock.uuid, "uuids")))
_LOCK = Prepared(sa.insert(t.instance_locks))


@dataclass(frozen=True)
class InstanceAction:
    """One row. `generation`: 0 for an action that changes no desired state, as a lock or a move.

    `finished_at` is 0 and `result` None until it ends; `reason` is a code where it ended as ERROR, else "".
    Times are epoch seconds.
    """

    uuid: str
    number: int
    action: str
    request_id: str
    user_id: str
    project_id: str
    generation: int
    started_at: float
    finished_at: float = 0.0
    result: Result | None = None
    reason: str = ""


@dataclass(frozen=True)
class Count:
    """The last number that an instance's actions have reached, and how many of them have not ended.

    `has_creation`: its creation is one of them, which is recorded with its first delete.
    """

    last: int = 0
    open: int = 0
    has_creation: bool = False


@dataclass(frozen=True)
class Lock:
    """The lock of an instance; `by_admin`: its owner may not remove it."""

    reason: str
    by_admin: bool


def counts(tx: Connection, uuids: Sequence[str]) -> Mapping[str, Count]:
    """Count the actions of these instances, by uuid; one without any is left out."""
    return {row.uuid: Count(row.last, row.open, row.first == 0) for row in _COUNTS.all(tx, uuids=uuids)}


def names_of_last(tx: Connection, uuids: Sequence[str]) -> Mapping[str, str]:
    """Read the name of the newest action that changed what is desired of each of these instances."""
    return {row.uuid: row.action for row in _NAMES.all(tx, uuids=uuids)} if uuids else {}


def on_their_way_from(tx: Connection, child_id: str, leaves: Collection[str], limit: int) -> list[str]:
    """List the instances that have left a child by such an action, and have no new place yet."""
    under_way = t.instance_states.c.observed_generation < t.instance_states.c.generation
    found = _placed_anew(child_id, leaves).where(under_way, _IS_OPEN)
    return list(tx.execute(found.order_by(COLUMNS.uuid).limit(limit)).scalars())


def without_place_from(tx: Connection, child_id: str, leaves: Collection[str]) -> Mapping[str, str]:
    """Read why instances rest that have left a child by such an action, and found no new place, by uuid.

    Those come first that were last tried first.
    """
    has_failed = sa.and_(
        COLUMNS.result == Result.ERROR.value, _instance.status == InstanceStatus.OFFLOADED.value
    )
    found = _placed_anew(child_id, leaves).join(t.instances, _instance.uuid == COLUMNS.uuid)
    statement = (
        found.add_columns(COLUMNS.reason).where(has_failed).order_by(COLUMNS.finished_at, COLUMNS.uuid)
    )
    return {row.uuid: row.reason for row in tx.execute(statement)}


def _placed_anew(child_id: str, leaves: Collection[str]) -> sa.Select[Any]:
    """Select instances whose newest desired state places them anew after they have left a child so."""
    place, state, left = t.placements.c, t.instance_states.c, t.instance_actions.alias()
    places, before = t.placements.alias(), t.instance_actions.alias()
    last_other = sa.select(sa.func.max(before.c.generation)).where(
        before.c.uuid == COLUMNS.uuid, before.c.action != "evacuate"
    )
    last_left = sa.select(sa.func.max(places.c.number)).where(
        places.c.uuid == COLUMNS.uuid, is_in(places.c.state, _LEFT)
    )
    return (
        sa.select(COLUMNS.uuid)
        .join(t.instance_states, state.uuid == COLUMNS.uuid)
        .join(left, left.c.uuid == COLUMNS.uuid)
        .join(t.placements, place.uuid == COLUMNS.uuid)
        .where(COLUMNS.action == "evacuate", COLUMNS.generation == state.generation)
        .where(left.c.action.in_(leaves), left.c.generation == last_other.scalar_subquery())
        .where(place.child_id == child_id, is_in(place.state, _LEFT))
        .where(place.number == last_left.scalar_subquery())
    )


def insert(tx: Connection, actions: Sequence[InstanceAction]) -> None:
    """Add rows, and delete the oldest ended ones of the same instances beyond the number that is kept."""
    _INSERT.run_many(tx, [_to_row(action) for action in actions])
    for at in sorted({a.finished_at for a in actions if a.result is not None}):
        _note_ended(tx, [a.uuid for a in actions if a.finished_at == at], at)
    full = [
        {"b_uuid": a.uuid, "b_until": a.number - KEPT_PER_INSTANCE}
        for a in actions
        if a.number > KEPT_PER_INSTANCE
    ]
    _FORGET.run_many(tx, full)


def of_instance(tx: Connection, uuid: str) -> list[InstanceAction]:
    """Read an instance's actions, newest first."""
    return [_from_row(row) for row in _OF_INSTANCE.all(tx, uuid=uuid)]


def reached(tx: Connection, generations: Mapping[str, tuple[int, str]], now: float) -> None:
    """End the actions up to a generation that was applied, or refused for a reason, by uuid.

    Those before it are superseded.
    """
    rows = [{"b_uuid": uuid, "b_generation": number} for uuid, (number, _) in sorted(generations.items())]
    _SUPERSEDE.run_many(tx, rows, b_result=Result.SUPERSEDED.value, b_reason="", now=now)
    results = [
        {
            "b_uuid": uuid,
            "b_generation": number,
            "b_result": (Result.ERROR if reason else Result.DONE).value,
            "b_reason": reason,
        }
        for uuid, (number, reason) in sorted(generations.items())
    ]
    _FINISH.run_many(tx, results, now=now)
    _note_ended(tx, list(generations), now)


def end_one(tx: Connection, uuid: str, number: int, reason: str, now: float) -> None:
    """End one action, unless it has ended: done, or as an error for a reason."""
    result = Result.ERROR if reason else Result.DONE
    _END_ONE.run(tx, b_uuid=uuid, b_number=number, b_result=result.value, b_reason=reason, now=now)
    _note_ended(tx, [uuid], now)


def renumber(tx: Connection, uuid: str, before: int, after: int) -> None:
    """Give the open actions of one generation of an instance's desired state another one."""
    tx.execute(
        sa.update(t.instance_actions)
        .where(COLUMNS.uuid == uuid, COLUMNS.generation == before, _IS_OPEN)
        .values(generation=after)
    )


def reason_of_end(status: InstanceStatus, reason: str) -> str:
    """Return why the actions of an instance end that has ended; `reason`: of its ERROR."""
    return "server_deleted" if status is InstanceStatus.DELETED else reason or "server_failed"


def end_with_instances(
    tx: Connection, uuids: Sequence[str], status: InstanceStatus, reason: str, now: float
) -> None:
    """End the open actions of those of these instances that have this status, as errors."""
    _END_WITH_INSTANCE.run(
        tx, uuids=uuids, b_status=status.value, b_result=Result.ERROR.value, b_reason=reason, now=now
    )
    _note_ended(tx, uuids, now)


def _note_ended(tx: Connection, uuids: Sequence[str], now: float) -> None:
    outcomes.note(tx, ActionsEnded(tuple(uuids), now))


def locks(tx: Connection, uuids: Sequence[str]) -> Mapping[str, Lock]:
    """Read the locks of these instances, by uuid."""
    return {row.uuid: Lock(row.reason, bool(row.by_admin)) for row in _LOCKS.all(tx, uuids=uuids)}


def lock(tx: Connection, uuids: Sequence[str], reason: str, *, by_admin: bool) -> None:
    """Lock instances; a lock that exists is replaced."""
    _UNLOCK.run(tx, uuids=uuids)
    _LOCK.run_many(tx, [{"uuid": uuid, "reason": reason, "by_admin": by_admin} for uuid in uuids])


def unlock(tx: Connection, uuids: Sequence[str]) -> None:
    """Unlock instances."""
    _UNLOCK.run(tx, uuids=uuids)


def _to_row(a: InstanceAction) -> dict[str, Any]:
    return dict(vars(a)) | {"result": a.result.value if a.result is not None else ""}


def _from_row(row: Any) -> InstanceAction:
    return InstanceAction(
        uuid=row.uuid,
        number=row.number,
        action=row.action,
        request_id=row.request_id,
        user_id=row.user_id,
        project_id=row.project_id,
        generation=row.generation,
        started_at=row.started_at,
        finished_at=row.finished_at,
        result=Result(row.result) if row.result else None,
        reason=row.reason,
    )
