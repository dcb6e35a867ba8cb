"""Instances as this zone knows them: its own users' and those that parents sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.store import claims
from zonesched.store import tables as t

COLUMNS = t.instances.c
_BY_UUID = (
    sa.select(t.instances)
    .where(COLUMNS.uuid.in_(sa.bindparam("uuids", expanding=True)))
    .order_by(COLUMNS.reservation_id, COLUMNS.position)
)
_OF_RESERVATION = (
    sa.select(t.instances)
    .where(COLUMNS.reservation_id == sa.bindparam("reservation"))
    .where(COLUMNS.caller_id == sa.bindparam("caller"))
    .order_by(COLUMNS.position)
)


@dataclass(frozen=True)
class Instance:
    """One row. `attempt` is the number of its present placement, 0 before the first.

    `flavor_id`, `image_key` and `group_id` ("" without a group) say what its request asked for.
    """

    uuid: str
    caller_id: str
    project_id: str
    user_id: str
    reservation_id: str
    position: int
    name: str
    kept: Mapping[str, Any]
    flavor_id: str
    image_key: str
    group_id: str
    status: InstanceStatus
    reason: str
    attempt: int
    created_at: float
    updated_at: float


def insert(tx: Connection, change: int, instances: Sequence[Instance]) -> None:
    """Add rows."""
    if instances:
        tx.execute(sa.insert(t.instances), [_to_row(i) | {"changed_seq": change} for i in instances])


def read(tx: Connection, *conditions: Any) -> list[Instance]:
    """Instances that meet all conditions, in order of their position in the reservation."""
    statement = sa.select(t.instances).where(*conditions).order_by(COLUMNS.reservation_id, COLUMNS.position)
    return [from_row(row) for row in tx.execute(statement)]


def read_reservation(tx: Connection, caller_id: str, reservation_id: str) -> list[Instance]:
    """The instances of a caller's reservation, in order of their position."""
    rows = tx.execute(_OF_RESERVATION, {"reservation": reservation_id, "caller": caller_id})
    return [from_row(row) for row in rows]


def read_by_uuid(tx: Connection, uuids: Sequence[str]) -> Mapping[str, Instance]:
    """The instances that exist of these, by uuid."""
    found: dict[str, Instance] = {}
    for some in claims.chunks(uuids):
        rows = tx.execute(_BY_UUID, {"uuids": some})
        found |= {i.uuid: i for i in map(from_row, rows)}
    return found


def set_attempts(
    tx: Connection, change: int, attempts: Mapping[str, int], status: InstanceStatus, now: float
) -> None:
    """Note the present placement of each instance, and that it is in `status` again without a reason."""
    rows = [{"b_uuid": uuid, "b_attempt": number} for uuid, number in attempts.items()]
    if rows:
        statement = (
            sa.update(t.instances)
            .where(COLUMNS.uuid == sa.bindparam("b_uuid"))
            .values(
                attempt=sa.bindparam("b_attempt"),
                status=status.value,
                reason="",
                updated_at=now,
                changed_seq=change,
            )
        )
        tx.execute(statement, rows)


def set_status(
    tx: Connection,
    change: int,
    uuids: Sequence[str],
    status: InstanceStatus,
    now: float,
    *,
    reason: str = "",
    only_from: Sequence[InstanceStatus] = (),
) -> int:
    """Set the status of instances, those in `only_from` where it is given; how many were set."""
    count = 0
    for some in claims.chunks(uuids):
        statement = sa.update(t.instances).where(COLUMNS.uuid.in_(some))
        if only_from:
            statement = statement.where(COLUMNS.status.in_([s.value for s in only_from]))
        result = tx.execute(
            statement.values(status=status.value, reason=reason, updated_at=now, changed_seq=change)
        )
        count += result.rowcount
    return count


def _to_row(i: Instance) -> dict[str, Any]:
    return {
        "uuid": i.uuid,
        "caller_id": i.caller_id,
        "project_id": i.project_id,
        "user_id": i.user_id,
        "reservation_id": i.reservation_id,
        "position": i.position,
        "name": i.name,
        "kept": orjson.dumps(dict(i.kept)).decode(),
        "flavor_id": i.flavor_id,
        "image_key": i.image_key,
        "group_id": i.group_id,
        "status": i.status.value,
        "reason": i.reason,
        "attempt": i.attempt,
        "created_at": i.created_at,
        "updated_at": i.updated_at,
    }


def from_row(row: Any) -> Instance:
    """The instance that a row of the table says."""
    return Instance(
        uuid=row.uuid,
        caller_id=row.caller_id,
        project_id=row.project_id,
        user_id=row.user_id,
        reservation_id=row.reservation_id,
        position=row.position,
        name=row.name,
        kept=orjson.loads(row.kept),
        flavor_id=row.flavor_id,
        image_key=row.image_key,
        group_id=row.group_id,
        status=InstanceStatus(row.status),
        reason=row.reason,
        attempt=row.attempt,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
