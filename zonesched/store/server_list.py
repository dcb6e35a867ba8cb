"""Pages of instances, by default newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.desired_state import STATUS_OF_POWER, RebootType, Status
from zonesched.model.observed_state import Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.server_query import ListOrder, SortKey
from zonesched.store import aliases, identity, instances
from zonesched.store import tables as t
from zonesched.store.instances import Instance
from zonesched.store.prepared import unindexed
from zonesched.store.unknown_marker import UnknownMarker

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


def _has(scope: Scope, instance: Instance) -> bool:
    match scope:
        case Everybody():
            return True
        case OfCaller(caller_id):
            return instance.caller_id == caller_id
        case OfProject(caller_id, project_id):
            return (instance.caller_id, instance.project_id) == (caller_id, project_id)


def _uuid_here(tx: Connection, scope: Scope, uuid: str) -> str:
    match scope:
        case OfCaller(caller_id):
            return aliases.instance_uuids(tx, caller_id, [uuid]).get(uuid, uuid)
        case _:
            return uuid


def find(tx: Connection, scope: Scope, uuid: str) -> list[Instance]:
    """Read the instance of this uuid, which may be an alias of the caller; empty where the scope has none."""
    found = instances.read_by_uuid(tx, [_uuid_here(tx, scope, uuid)])
    return [instance for instance in found.values() if _has(scope, instance)]


@dataclass(frozen=True)
class Page:
    """Query of one page; "" or nothing leaves a filter out, and so does a time of 0."""

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


def page(tx: Connection, wanted: Page) -> list[Instance]:
    """Read a page of instances in the order asked for, after the marker.

    Deleted ones are in it only for that status, or with `changed_since`.

    Raises UnknownMarker for a marker that names no instance of the scope.
    """
    return [instances.from_row(row) for row in tx.execute(_page(tx, wanted, list(COLUMNS)))]


def uuids(tx: Connection, wanted: Page) -> list[str]:
    """Read the uuids of a page, as `page`: a long one takes little, and is sorted once."""
    columns = dict.fromkeys(column for column, _ in _ordered(wanted))
    return [row.uuid for row in tx.execute(_page(tx, wanted, list(columns)))]


def _page(tx: Connection, wanted: Page, columns: Sequence[sa.Column[Any]]) -> sa.Select[Any]:
    conditions = _in_scope(wanted.scope)
    if wanted.reservation_id:
        conditions.append(COLUMNS.reservation_id == wanted.reservation_id)
    if wanted.name:
        conditions.append(COLUMNS.name.contains(wanted.name, autoescape=True))
    if wanted.statuses:
        conditions.append(sa.or_(*(_shows(Status(status)) for status in wanted.statuses)))
    elif not wanted.changed_since:
        conditions.append(COLUMNS.status != InstanceStatus.DELETED.value)
    if wanted.flavor_id:
        conditions.append(COLUMNS.flavor_id == wanted.flavor_id)
    if wanted.changed_since:
        conditions.append(COLUMNS.updated_at >= wanted.changed_since)
    if wanted.changed_before:
        conditions.append(COLUMNS.updated_at <= wanted.changed_before)
    for column, value in (
        (COLUMNS.uuid, wanted.uuid),
        (COLUMNS.user_id, wanted.user_id),
        (COLUMNS.project_id, wanted.project_id),
    ):
        if value:
            conditions.append(column == value)
    if wanted.host:
        conditions.append(COLUMNS.uuid.in_(_placed_on(wanted.host)))
    if wanted.marker:
        conditions.append(_after(tx, wanted))
    statement = (
        sa.select(*columns).where(*conditions).order_by(*_in_order(wanted, COLUMNS)).limit(wanted.limit)
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


def _shows(status: Status) -> sa.ColumnElement[bool]:
    """Make the condition that an instance shows this status (`model.desired_state.shown_status`)."""
    state = t.instance_states.c
    is_offloaded = state.observed_power == Power.OFFLOADED.value
    was_offloaded = sa.select(state.uuid).where(state.uuid == COLUMNS.uuid, is_offloaded).exists()
    is_resized = state.observed_resizes_begun > (
        state.observed_resizes_confirmed + state.observed_resizes_reverted
    )
    is_reverting = state.resizes_reverted > state.observed_resizes_reverted
    is_resizing = state.resizes_begun > state.observed_resizes_begun
    is_moving = sa.or_(state.moves_begun > state.moves_ended, is_resizing, is_resized)
    match status:
        case Status.BUILD:
            return sa.and_(COLUMNS.status == InstanceStatus.BUILD.value, sa.not_(was_offloaded))
        case Status.SHELVED_OFFLOADED:
            comes_back = COLUMNS.status.in_([InstanceStatus.BUILD.value, InstanceStatus.ACTIVE.value])
            rests = COLUMNS.status == InstanceStatus.OFFLOADED.value
            return sa.or_(rests, sa.and_(comes_back, was_offloaded))
        case Status.RESIZE | Status.VERIFY_RESIZE | Status.REVERT_RESIZE:
            such = {
                Status.RESIZE: sa.and_(is_moving, sa.not_(is_resized)),
                Status.VERIFY_RESIZE: sa.and_(is_resized, sa.not_(is_reverting)),
                Status.REVERT_RESIZE: sa.and_(is_resized, is_reverting),
            }[status]
            moves = sa.select(state.uuid).where(state.uuid == COLUMNS.uuid, such).exists()
            return sa.and_(_is_stored_as(InstanceStatus.ACTIVE), moves)
        case _ if status not in _OF_BUILT:
            return sa.and_(_is_stored_as(InstanceStatus(status.value)))
    is_running = state.observed_power == Power.RUNNING.value
    is_rebooting = sa.and_(is_running, state.rebooted_by > state.observed_generation)
    is_rebuilding = state.rebuilt_by > state.observed_generation
    is_other = sa.not_(sa.or_(is_rebuilding, is_moving))
    match status:
        case Status.ACTIVE:
            such = sa.or_(sa.not_(is_running), is_rebooting, is_rebuilding, is_moving)
        case Status.REBUILD:
            such = sa.and_(is_rebuilding, sa.not_(is_moving))
        case Status.REBOOT | Status.HARD_REBOOT:
            kind = RebootType.HARD if status is Status.HARD_REBOOT else RebootType.SOFT
            such = sa.and_(is_rebooting, state.reboot_type == kind.value, is_other)
        case _:
            such = sa.and_(state.observed_power == _POWERS[status].value, is_other)
    found = sa.select(state.uuid).where(state.uuid == COLUMNS.uuid, such).exists()
    return sa.and_(_is_stored_as(InstanceStatus.ACTIVE), sa.not_(found) if status is Status.ACTIVE else found)


def _is_stored_as(status: InstanceStatus) -> sa.ColumnElement[bool]:
    """Make the condition that an instance has this status in its row."""
    # Of these SQLite would sort all there are for a page of the newest.
    column = unindexed(COLUMNS.status) if status in _OF_MANY else COLUMNS.status
    return column == status.value


_OF_MANY = {InstanceStatus.ACTIVE, InstanceStatus.DELETED}
"""The statuses in which most instances of a zone are."""

_POWERS = {status: power for power, status in STATUS_OF_POWER.items()}
_OF_BUILT = {*_POWERS, Status.REBOOT, Status.HARD_REBOOT, Status.REBUILD}
"""The statuses of an instance that is stored as ACTIVE."""


def _after(tx: Connection, wanted: Page) -> sa.ColumnElement[bool]:
    marker = _uuid_here(tx, wanted.scope, wanted.marker)
    ordered = _ordered(wanted)
    columns = [column for column, _ in ordered]
    found = tx.execute(sa.select(*columns).where(COLUMNS.uuid == marker, *_in_scope(wanted.scope))).first()
    if found is None:
        raise UnknownMarker(marker)
    after: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for (column, is_descending), value in zip(ordered, found, strict=True):
        after.append(sa.and_(*equal, column < value if is_descending else column > value))
        equal.append(column == value)
    # An index begins to read at the first column's value; of the alternatives it would try each row.
    (first, is_descending), value = ordered[0], found[0]
    return sa.and_(first <= value if is_descending else first >= value, sa.or_(*after))


def _in_order(wanted: Page, columns: Any) -> list[sa.ColumnElement[Any]]:
    """Return how to order rows that have these columns."""
    named = [(columns[column.name], is_descending) for column, is_descending in _ordered(wanted)]
    return [column.desc() if is_descending else column.asc() for column, is_descending in named]


def _ordered(wanted: Page) -> Sequence[tuple[sa.Column[Any], bool]]:
    """Return the columns of an order, and whether each descends; the uuid comes last."""
    by_keys = [(_SORTED[one.key], one.is_descending) for one in wanted.order]
    return [*by_keys, (COLUMNS.uuid, wanted.order[0].is_descending)]


_SORTED: Mapping[SortKey, sa.Column[Any]] = {
    SortKey.CREATED_AT: COLUMNS.created_at,
    SortKey.UPDATED_AT: COLUMNS.updated_at,
    SortKey.NAME: COLUMNS.name,
    SortKey.UUID: COLUMNS.uuid,
    SortKey.PROJECT: COLUMNS.project_id,
    SortKey.USER: COLUMNS.user_id,
    SortKey.LAUNCH_INDEX: COLUMNS.position,
}
