"""Server groups of this zone's projects, and their instances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import GroupPolicy, ServerGroup
from zonesched.store import claims
from zonesched.store import tables as t

COLUMNS = t.server_groups.c
_ORDER = (COLUMNS.created_at, COLUMNS.id)


@dataclass(frozen=True)
class OwnedGroup:
    """One row: a group, its name (not unique) and its owner."""

    group: ServerGroup
    name: str
    project_id: str
    user_id: str
    created_at: float


@dataclass(frozen=True)
class AllProjects:
    """Groups of all projects."""


@dataclass(frozen=True)
class OneProject:
    """Groups of one project."""

    project_id: str


def insert(tx: Connection, owned: OwnedGroup) -> None:
    """Add a row."""
    tx.execute(
        sa.insert(t.server_groups).values(
            id=owned.group.id,
            name=owned.name,
            project_id=owned.project_id,
            user_id=owned.user_id,
            policy=owned.group.policy.value,
            max_server_per_host=owned.group.max_server_per_host,
            created_at=owned.created_at,
        )
    )


def read_one(tx: Connection, group_id: str) -> OwnedGroup | None:
    """Read one group; None where there is none of this id."""
    row = tx.execute(sa.select(t.server_groups).where(COLUMNS.id == group_id)).first()
    return None if row is None else _from_row(row)


def named(tx: Connection, project_id: str, name: str) -> list[OwnedGroup]:
    """Read the groups of a project that have this name, oldest first."""
    statement = sa.select(t.server_groups).where(COLUMNS.project_id == project_id, COLUMNS.name == name)
    return [_from_row(row) for row in tx.execute(statement.order_by(*_ORDER))]


def page(
    tx: Connection,
    projects: AllProjects | OneProject,
    offset: int,
    limit: int,
    after: OwnedGroup | None = None,
) -> list[OwnedGroup]:
    """Read at most `limit` groups of these projects, oldest first: after one, and then after `offset`."""
    statement = sa.select(t.server_groups)
    match projects:
        case OneProject(project_id):
            statement = statement.where(COLUMNS.project_id == project_id)
        case AllProjects():
            pass
    if after is not None:
        created_at, id = after.created_at, after.group.id
        is_later = COLUMNS.created_at > created_at
        statement = statement.where(is_later | ((COLUMNS.created_at == created_at) & (COLUMNS.id > id)))
    found = tx.execute(statement.order_by(*_ORDER).offset(offset).limit(limit))
    return [_from_row(row) for row in found]


def count(tx: Connection, project_id: str) -> int:
    """Count the groups of a project."""
    statement = sa.select(sa.func.count()).where(COLUMNS.project_id == project_id)
    return int(tx.execute(statement).scalar_one())


def delete(tx: Connection, group_id: str) -> bool:
    """Delete a group; its instances keep its id. False where it is not there any more."""
    return bool(tx.execute(sa.delete(t.server_groups).where(COLUMNS.id == group_id)).rowcount)


def members(tx: Connection, caller_id: str, group_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Read the instances of each group that are not deleted, oldest first."""
    instance = t.instances.c
    found: defaultdict[str, list[str]] = defaultdict(list)
    for some in claims.chunks(group_ids):
        statement = (
            sa.select(instance.group_id, instance.uuid)
            # The first condition lets the planner use the partial index.
            .where(instance.group_id != "", instance.group_id.in_(some), instance.caller_id == caller_id)
            .where(instance.status != InstanceStatus.DELETED.value)
            .order_by(instance.created_at, instance.reservation_id, instance.position)
        )
        for group_id, uuid in tx.execute(statement):
            found[group_id].append(uuid)
    return found


def _from_row(row: Any) -> OwnedGroup:
    return OwnedGroup(
        group=ServerGroup(row.id, GroupPolicy(row.policy), row.max_server_per_host),
        name=row.name,
        project_id=row.project_id,
        user_id=row.user_id,
        created_at=row.created_at,
    )
