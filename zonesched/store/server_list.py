"""Pages of instances, by default newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.model.server_query import ANY_STATES, AskedStates, ListOrder, SortKey
from zonesched.model.shown_status import Status
from zonesched.store import aliases, identity, instances, shown_states
from zonesched.store import tables as t
from zonesched.store.few_instances import is_named
from zonesched.store.instances import Instance
from zonesched.store.prepared import Prepared
from zonesched.store.text_parts import has_part
from zonesched.store.unknown_marker import UnknownMarker

COLUMNS = t.instances.c
_OF_CALLER = Prepared(
    sa.select(t.instances).where(
        COLUMNS.uuid == sa.bindparam("uuid"), COLUMNS.caller_id == sa.bindparam("caller")
    )
)
_OF_PROJECT = Prepared(
    sa.select(t.instances).where(
        COLUMNS.uuid == sa.bindparam("uuid"),
        COLUMNS.caller_id == sa.bindparam("caller"),
        COLUMNS.project_id == sa.bindparam("project"),
    )
)


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


def _uuid_here(tx: Connection, scope: Scope, uuid: str) -> str:
    match scope:
        case OfCaller(caller_id):
            return aliases.instance_uuids(tx, caller_id, [uuid]).get(uuid, uuid)
        case _:
            return uuid


def find(tx: Connection, scope: Scope, uuid: str) -> list[Instance]:
    """Read the instance of this uuid, which may be an alias of the caller; empty where the scope has none.

    One out of the scope is not read: how long that takes would tell that it exists, and how large it is.
    """
    match scope:
        case Everybody():
            return list(instances.read_by_uuid(tx, [uuid]).values())
        case OfCaller(caller_id):
            found = _OF_CALLER.all(tx, uuid=_uuid_here(tx, scope, uuid), caller=caller_id)
        case OfProject(caller_id, project_id):
            found = _OF_PROJECT.all(tx, uuid=uuid, caller=caller_id, project=project_id)
    return list(map(instances.from_row, found))


@dataclass(frozen=True)
class Page:
    """Query of one page; "" or nothing leaves a filter out, and so does a time of 0, and None as `locked`."""

    scope: Scope
    reservation_id: str
    statuses: Sequence[str]
    flavor_id: str
    changed_since: float
    changed_before: float
    name: str
    uuid: str
    user_id: str
    project_id: str
    host: str
    order: Sequence[ListOrder]
    marker: str
    limit: int
    locked: bool | None = None
    states: AskedStates = ANY_STATES
    """States that its instances may have: some of them may have others."""


def page(tx: Connection, wanted: Page) -> list[Instance]:
    """Read a page of instances in the order asked for, after the marker.

    Deleted and soft-deleted ones are in it only for these statuses, or with `changed_since`.

    Raises UnknownMarker for a marker that names no instance of the scope.
    """
    return [instances.from_row(row) for row in tx.execute(_page(tx, wanted, list(COLUMNS)))]


def uuids(tx: Connection, wanted: Page) -> list[str]:
    """Read the uuids of a page, as `page`: a long one takes little, and is sorted once."""
    return [row.uuid for row in tx.execute(_page(tx, wanted, [COLUMNS.uuid]))]


def _page(tx: Connection, wanted: Page, columns: Sequence[_Sorted]) -> sa.Select[Any]:
    conditions = _in_scope(wanted.scope)
    if wanted.reservation_id:
        conditions.append(COLUMNS.reservation_id == wanted.reservation_id)
    if wanted.name:
        conditions.append(has_part(COLUMNS.name, wanted.name))
    if wanted.statuses:
        conditions.append(shown_states.shows_one(tx, list(map(Status, wanted.statuses))))
    elif not wanted.changed_since:
        conditions += [COLUMNS.status != InstanceStatus.DELETED.value, shown_states.are_not_soft_deleted()]
    also_deleted = bool(wanted.statuses or wanted.changed_since)
    conditions += shown_states.may_have(tx, wanted.states, also_deleted=also_deleted)
    if wanted.flavor_id:
        conditions.append(COLUMNS.flavor_id == wanted.flavor_id)
    if wanted.changed_since:
        conditions.append(_changed_since(tx, wanted))
    if wanted.changed_before:
        conditions.append(COLUMNS.updated_at <= wanted.changed_before)
    for column, value in (
        (COLUMNS.uuid, wanted.uuid),
        (COLUMNS.user_id, wanted.user_id),
        (COLUMNS.project_id, wanted.project_id),
    ):
        if value:
            conditions.append(column == value)
    if wanted.locked is not None:
        conditions.append(_is_locked(tx) if wanted.locked else ~_HAS_LOCK)
    if wanted.host:
        conditions.append(COLUMNS.uuid.in_(_placed_on(wanted.host)))
    if wanted.marker:
        conditions.append(_after(tx, wanted))
    sorted_by = (column for column, _ in _ordered(wanted))
    selected = dict.fromkeys((*columns, *sorted_by))
    statement = (
        sa.select(*selected).where(*conditions).order_by(*_in_order(wanted, COLUMNS)).limit(wanted.limit)
    )
    if wanted.project_id and wanted.scope == Everybody():
        return _by_caller(statement, identity.callers(tx), wanted)
    return statement


def _by_caller(statement: sa.Select[Any], callers: Sequence[str], wanted: Page) -> sa.Select[Any]:
    """Select the page as one of the pages of each sender: the index of projects begins with the sender."""
    pages = [statement.where(COLUMNS.caller_id == caller).subquery() for caller in callers]
    if not pages:
        return statement
    every = sa.union_all(*(sa.select(page) for page in pages)).subquery()
    return sa.select(every).order_by(*_in_order(wanted, every.c)).limit(wanted.limit)


def _placed_on(host: str) -> sa.Select[tuple[str]]:
    """Select the uuids of the instances that have a placement on a host, a present or an earlier one."""
    place = t.placements.c
    named = sa.select(t.hosts.c.id).where(t.hosts.c.name == host).scalar_subquery()
    return sa.select(place.uuid).where(place.host_id == named)


_LOCK = t.instance_locks.c
_HAS_LOCK = sa.select(_LOCK.uuid).where(_LOCK.uuid == COLUMNS.uuid).exists()
_STATUSES = sorted(status.value for status in InstanceStatus)


def _is_locked(tx: Connection) -> sa.ColumnElement[bool]:
    """Make the condition that an instance is locked."""
    return is_named(tx, sa.select(_LOCK.uuid), _HAS_LOCK)


def _changed_since(tx: Connection, wanted: Page) -> sa.ColumnElement[bool]:
    """Make the condition that an instance has changed since then."""
    has_changed = COLUMNS.updated_at >= wanted.changed_since
    if isinstance(wanted.scope, OfProject):
        return has_changed
    # The index of changes begins with the status.
    changed = sa.select(COLUMNS.uuid).where(COLUMNS.status.in_(_STATUSES), has_changed)
    return is_named(tx, changed, has_changed)


def _after(tx: Connection, wanted: Page) -> sa.ColumnElement[bool]:
    marker = _uuid_here(tx, wanted.scope, wanted.marker)
    ordered = _ordered(wanted)
    columns = [column for column, _ in ordered]
    found = tx.execute(sa.select(*columns).where(COLUMNS.uuid == marker, *_in_scope(wanted.scope))).first()
    if found is None:
        raise UnknownMarker(marker)
    (first, is_descending), value = ordered[0], found[0]
    # An index begins to read at the first column's value. With several comparisons that it can look up, newer
    # releases of SQLite would read each whole, and sort them.
    begins = first <= value if is_descending else first >= value
    after: list[sa.ColumnElement[bool]] = [first != value]
    equal: list[sa.ColumnElement[bool]] = []
    for (column, is_descending), value in zip(ordered[1:], found[1:], strict=True):
        after.append(sa.and_(*equal, column < value if is_descending else column > value))
        equal.append(column == value)
    return sa.and_(begins, sa.or_(*after))


def _in_order(wanted: Page, columns: Any) -> list[sa.ColumnElement[Any]]:
    """Return how to order rows that have these columns."""
    named = [(columns.get(column.name, column), is_desc) for column, is_desc in _ordered(wanted)]
    return [column.desc() if is_desc else column.asc() for column, is_desc in named]


def _ordered(wanted: Page) -> Sequence[tuple[_Sorted, bool]]:
    """Return the columns of an order, and whether each descends; the uuid comes last."""
    by_keys = [(_SORTED[one.key], one.is_descending) for one in wanted.order]
    return [*by_keys, (COLUMNS.uuid, wanted.order[0].is_descending)]


_Sorted = sa.Column[Any] | sa.Label[Any]


_SORTED: Mapping[SortKey, _Sorted] = {
    SortKey.CREATED_AT: COLUMNS.created_at,
    SortKey.UPDATED_AT: COLUMNS.updated_at,
    SortKey.NAME: COLUMNS.name,
    SortKey.UUID: COLUMNS.uuid,
    SortKey.PROJECT: COLUMNS.project_id,
    SortKey.USER: COLUMNS.user_id,
    SortKey.LAUNCH_INDEX: COLUMNS.position,
    SortKey.FLAVOR: COLUMNS.flavor_id,
    SortKey.LOCK: sa.case((_HAS_LOCK, 1), else_=0).label("locked_by"),
    SortKey.VM_STATE: shown_states.VM_STATE,
    SortKey.POWER_STATE: shown_states.POWER_STATE_NUMBER,
}
