"""Where instances are placed: rows that only ever move along the states of `model.placement`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import CLAIMING, PlacementState
from zonesched.store import claims, group_places
from zonesched.store import tables as t

COLUMNS = t.placements.c
_OF_INSTANCES = (
    sa.select(t.placements)
    .where(COLUMNS.uuid.in_(sa.bindparam("uuids", expanding=True)))
    .order_by(COLUMNS.uuid, COLUMNS.number)
)
_FAILED_HOSTS = sa.select(COLUMNS.host_id).where(
    COLUMNS.reservation_id == sa.bindparam("reservation"),
    COLUMNS.kind == "host",
    COLUMNS.state == PlacementState.FAILED.value,
)
_CAME_TO_NOTHING = (PlacementState.CANCELLING, PlacementState.GONE, PlacementState.FAILED)
_HOLDS = (PlacementState.HELD, PlacementState.CONFIRMING, PlacementState.CONFIRMED)


def _how_many(states: Sequence[PlacementState]) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((COLUMNS.state.in_([state.value for state in states]), 1), else_=0))


_BROKEN_PROMISES = (
    sa.select(COLUMNS.child_id)
    .where(COLUMNS.reservation_id == sa.bindparam("reservation"), COLUMNS.kind == "child")
    .group_by(COLUMNS.child_id)
    .having(_how_many(_CAME_TO_NOTHING) > _how_many(_HOLDS))
)


@dataclass(frozen=True)
class OnHost:
    """A place on a host of this zone, and what it takes there."""

    host_id: str
    resources: Mapping[str, int]


@dataclass(frozen=True)
class InChild:
    """A place in a child zone, and the entries that child is to try in order."""

    child_id: str
    blobs: tuple[str, ...]


Where = OnHost | InChild


@dataclass(frozen=True)
class Placement:
    """One row. `number` is counted per instance; `entry_key` is "" where no sealed entry was used up."""

    uuid: str
    number: int
    caller_id: str
    reservation_id: str
    where: Where
    state: PlacementState
    reason: str
    hold_expires_at: float
    retained_until: float
    entry_key: str = ""
    calls: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return (self.uuid, self.number)


def insert(tx: Connection, placements: Sequence[Placement]) -> None:
    """Add rows; raises IntegrityError when a sealed entry is used a second time."""
    if placements:
        tx.execute(sa.insert(t.placements), [_to_row(p) for p in placements])


def read(tx: Connection, *conditions: Any, limit: int = 0) -> list[Placement]:
    """Placements that meet all conditions, in order of instance and number; `limit` 0 reads all."""
    statement = sa.select(t.placements).where(*conditions).order_by(COLUMNS.uuid, COLUMNS.number)
    if limit:
        statement = statement.limit(limit)
    return [_from_row(row) for row in tx.execute(statement)]


def read_by_uuid(tx: Connection, uuids: Sequence[str]) -> list[Placement]:
    """All placements of these instances, in order of instance and number."""
    found: list[Placement] = []
    for some in claims.chunks(sorted(uuids)):
        found += [_from_row(row) for row in tx.execute(_OF_INSTANCES, {"uuids": some})]
    return found


def failed_hosts(tx: Connection, reservation_id: str) -> frozenset[str]:
    """Own hosts whose claim or build failed for this reservation, whoever sent it."""
    return frozenset(tx.execute(_FAILED_HOSTS, {"reservation": reservation_id}).scalars())


def unreliable_children(tx: Connection, reservation_id: str) -> frozenset[str]:
    """Children in which more places of this reservation have come to nothing than there are now."""
    return frozenset(tx.execute(_BROKEN_PROMISES, {"reservation": reservation_id}).scalars())


def hosts_of(tx: Connection, caller_id: str, project_id: str, uuids: Collection[str]) -> frozenset[str]:
    """Own hosts that have one of these instances, of those that this caller and project own."""
    if not uuids:
        return frozenset()
    instance = t.instances.c
    statement = (
        sa.select(COLUMNS.host_id)
        .join(t.instances, instance.uuid == COLUMNS.uuid)
        .where(instance.uuid.in_(sorted(uuids)))
        .where(instance.caller_id == caller_id, instance.project_id == project_id)
        .where(COLUMNS.kind == "host", COLUMNS.state.in_(sorted(state.value for state in CLAIMING)))
    )
    return frozenset(tx.execute(statement).scalars())


def used_entry_keys(tx: Connection, keys: Sequence[str]) -> frozenset[str]:
    """Those of the sealed entries' keys that a placement has used up."""
    used: set[str] = set()
    for some in claims.chunks(keys):
        used.update(tx.execute(sa.select(COLUMNS.entry_key).where(COLUMNS.entry_key.in_(some))).scalars())
    return frozenset(used)


def move(
    tx: Connection,
    change: int,
    placement: Placement,
    to: PlacementState,
    *,
    reason: str = "",
    hold_expires_at: float = 0.0,
    next_call_at: float = 0.0,
) -> bool:
    """Move one placement from the state it was read in; False when it has moved on since.

    Leaving a state that takes resources of an own host gives them back in the same transaction, and the last
    of an affinity group that leaves its place gives that back. A `hold_expires_at` of 0 keeps the stored one.
    """
    values: dict[str, Any] = {
        "state": to.value,
        "reason": reason or placement.reason,
        "next_call_at": next_call_at,
        "calls": 0,
    }
    if hold_expires_at:
        values["hold_expires_at"] = hold_expires_at
    moved = tx.execute(
        sa.update(t.placements)
        .where(COLUMNS.uuid == placement.uuid, COLUMNS.number == placement.number)
        .where(COLUMNS.state == placement.state.value)
        .values(**values)
    ).rowcount
    if not moved:
        return False
    if isinstance(placement.where, OnHost) and placement.state in CLAIMING and to not in CLAIMING:
        claims.release(tx, change, [(placement.where.host_id, placement.where.resources)])
    if placement.state in group_places.KEEPING and to not in group_places.KEEPING:
        group_places.leave(tx, placement.uuid)
    return True


def move_all(
    tx: Connection, placements: Iterable[Placement], to: PlacementState, *, next_call_at: float = 0.0
) -> int:
    """Move placements whose resources stay as they are (a confirm); how many had not moved on since."""
    rows = [
        {"b_uuid": p.uuid, "b_number": p.number, "b_state": p.state.value, "b_to": to.value}
        for p in placements
    ]
    if not rows:
        return 0
    statement = (
        sa.update(t.placements)
        .where(COLUMNS.uuid == sa.bindparam("b_uuid"), COLUMNS.number == sa.bindparam("b_number"))
        .where(COLUMNS.state == sa.bindparam("b_state"))
        .values(state=sa.bindparam("b_to"), next_call_at=next_call_at, calls=0)
    )
    return int(tx.execute(statement, rows).rowcount)


def postpone(tx: Connection, placements: Sequence[Placement], due_after: Callable[[int], float]) -> None:
    """Count one more unanswered call; `due_after` says for a count when the next one is due."""
    for p in placements:
        tx.execute(
            sa.update(t.placements)
            .where(COLUMNS.uuid == p.uuid, COLUMNS.number == p.number, COLUMNS.state == p.state.value)
            .values(calls=p.calls + 1, next_call_at=due_after(p.calls + 1))
        )


def _to_row(p: Placement) -> dict[str, Any]:
    match p.where:
        case OnHost(host_id, resources):
            where = {
                "kind": "host",
                "host_id": host_id,
                "child_id": None,
                "resources": orjson.dumps(dict(resources)).decode(),
                "blobs": "[]",
            }
        case InChild(child_id, blobs):
            where = {
                "kind": "child",
                "host_id": None,
                "child_id": child_id,
                "resources": "{}",
                "blobs": orjson.dumps(blobs).decode(),
            }
    return where | {
        "uuid": p.uuid,
        "number": p.number,
        "caller_id": p.caller_id,
        "reservation_id": p.reservation_id,
        "state": p.state.value,
        "reason": p.reason,
        "hold_expires_at": p.hold_expires_at,
        "retained_until": p.retained_until,
        "entry_key": p.entry_key or None,
        "next_call_at": 0.0,
        "calls": p.calls,
    }


def _from_row(row: Any) -> Placement:
    where: Where
    if row.kind == "host":
        where = OnHost(row.host_id, orjson.loads(row.resources))
    else:
        where = InChild(row.child_id, tuple(orjson.loads(row.blobs)))
    return Placement(
        uuid=row.uuid,
        number=row.number,
        caller_id=row.caller_id,
        reservation_id=row.reservation_id,
        where=where,
        state=PlacementState(row.state),
        reason=row.reason,
        hold_expires_at=row.hold_expires_at,
        retained_until=row.retained_until,
        entry_key=row.entry_key or "",
        calls=row.calls,
    )
