"""Pages of instances, newest first."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.store import instances
from zonesched.store import tables as t
from zonesched.store.instances import Instance

COLUMNS = t.instances.c


@dataclass(frozen=True)
class Everybody:
    """Scope: all instances of the zone."""


@dataclass(frozen=True)
class OfCaller:
    """Scope: the instances of one sender, a parent's user or this zone's uuid for its own users."""

    caller_id: str


@dataclass(frozen=True)
class OfProject:
    """Scope: one project of one sender."""

    caller_id: str
    project_id: str


Scope = Everybody | OfCaller | OfProject


def _in_scope(scope: Scope) -> list[sa.ColumnElement[bool]]:
    """Make the conditions of a scope."""
    match scope:
        case Everybody():
            return []
        case OfCaller(caller_id):
            return [COLUMNS.caller_id == caller_id]
        case OfProject(caller_id, project_id):
            return [COLUMNS.caller_id == caller_id, COLUMNS.project_id == project_id]


def find(tx: Connection, scope: Scope, uuid: str) -> list[Instance]:
    """Read the instance of this uuid; empty where the scope has none."""
    statement = sa.select(t.instances).where(COLUMNS.uuid == uuid, *_in_scope(scope))
    return [instances.from_row(row) for row in tx.execute(statement)]


@dataclass(frozen=True)
class Page:
    """Query of one page; "" leaves a filter out."""

    scope: Scope
    reservation_id: str
    status: str
    name: str
    marker: str
    limit: int


def page(tx: Connection, wanted: Page) -> list[Instance]:
    """Read a page of instances, newest first, after the marker; deleted ones only for that status.

    Raises LookupError for a marker that names no instance of the scope.
    """
    conditions = _in_scope(wanted.scope)
    if wanted.reservation_id:
        conditions.append(COLUMNS.reservation_id == wanted.reservation_id)
    if wanted.name:
        conditions.append(COLUMNS.name.contains(wanted.name, autoescape=True))
    if wanted.status:
        conditions.append(COLUMNS.status == wanted.status)
    else:
        conditions.append(COLUMNS.status != InstanceStatus.DELETED.value)
    if wanted.marker:
        conditions.append(_after(tx, wanted))
    statement = (
        sa.select(t.instances)
        .where(*conditions)
        .order_by(COLUMNS.created_at.desc(), COLUMNS.uuid.desc())
        .limit(wanted.limit)
    )
    return [instances.from_row(row) for row in tx.execute(statement)]


def _after(tx: Connection, wanted: Page) -> sa.ColumnElement[bool]:
    marker = wanted.marker
    found = sa.select(COLUMNS.created_at).where(COLUMNS.uuid == marker, *_in_scope(wanted.scope))
    created_at = tx.execute(found).scalar()
    if created_at is None:
        raise LookupError(marker)
    return sa.or_(
        COLUMNS.created_at < created_at,
        sa.and_(COLUMNS.created_at == created_at, COLUMNS.uuid < marker),
    )
