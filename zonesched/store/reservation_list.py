"""Pages of boots, newest first, each with the counts of its instances."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import Flavor
from zonesched.model.request_wire import flavor_from_wire
from zonesched.model.shown_status import Status
from zonesched.store import reservations
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared
from zonesched.store.reservations import Reservation
from zonesched.store.server_list import Everybody, OfCaller, OfProject, Scope
from zonesched.store.shown_states import SHOWN_STATUS
from zonesched.store.unknown_marker import UnknownMarker

_BOOT, _INSTANCE = t.reservations.c, t.instances.c
_SAME_BOOT = sa.and_(_INSTANCE.reservation_id == _BOOT.id, _INSTANCE.caller_id == _BOOT.caller_id)


@dataclass(frozen=True)
class ListedBoot:
    """Boot with the name of its first instance and the count of its instances by status."""

    id: str
    num_instances: int
    min_count: int
    flavor: Flavor
    project_id: str
    created_at: float
    name: str
    counts: Mapping[Status, int]


_IN_PROJECT = Prepared(
    sa.select(_BOOT.id).where(
        _BOOT.id == sa.bindparam("boot"),
        _BOOT.caller_id == sa.bindparam("caller"),
        _BOOT.project_id == sa.bindparam("project"),
    )
)


def find(tx: Connection, scope: Scope, reservation_id: str) -> Sequence[Reservation]:
    """Read the boot of this id; empty where the scope has none.

    One out of the scope is not read: how long that takes would tell that it exists, and how large it is.
    """
    match scope:
        case Everybody():
            return list(reservations.read_ids(tx, [reservation_id]).values())
        case OfCaller(caller_id):
            is_own = True
        case OfProject(caller_id, project_id):
            is_own = (
                _IN_PROJECT.first(tx, boot=reservation_id, caller=caller_id, project=project_id) is not None
            )
    found = reservations.find(tx, caller_id, reservation_id) if is_own else None
    return [] if found is None else [found]


def page(tx: Connection, scope: Scope, marker: str, limit: int) -> list[ListedBoot]:
    """Read a page of boots that are not deleted as a whole, newest first, after `marker` ("": the first).

    Raises UnknownMarker for a marker that names no boot in the scope.
    """
    present = sa.exists().where(_SAME_BOOT, _INSTANCE.status != InstanceStatus.DELETED.value)
    own = _in_scope(scope)
    conditions = [*own, present, *([_after(tx, own, marker)] if marker else [])]
    newest = (_BOOT.created_at.desc(), _BOOT.id.desc())
    found = tx.execute(sa.select(*_LISTED).where(*conditions).order_by(*newest).limit(limit)).all()
    counts, names = _count(tx, [boot.id for boot in found])
    return [
        ListedBoot(
            id=boot.id,
            num_instances=boot.num_instances,
            min_count=boot.min_count,
            flavor=flavor_from_wire(orjson.loads(boot.spec)["flavor"]),
            project_id=boot.project_id,
            created_at=boot.created_at,
            name=names.get((boot.caller_id, boot.id), ""),
            counts=counts[boot.caller_id, boot.id],
        )
        for boot in found
    ]


_LISTED = (
    _BOOT.id,
    _BOOT.caller_id,
    _BOOT.project_id,
    _BOOT.spec,
    _BOOT.num_instances,
    _BOOT.min_count,
    _BOOT.created_at,
)
"""Columns of a line. The decision trace is none of them: it is five times as long as the rest of the row."""


def _in_scope(scope: Scope) -> list[sa.ColumnElement[bool]]:
    match scope:
        case Everybody():
            return []
        case OfCaller(caller_id):
            return [_BOOT.caller_id == caller_id]
        case OfProject(caller_id, project_id):
            return [_BOOT.caller_id == caller_id, _BOOT.project_id == project_id]


def _after(tx: Connection, own: Sequence[sa.ColumnElement[bool]], marker: str) -> sa.ColumnElement[bool]:
    created_at = tx.execute(sa.select(_BOOT.created_at).where(_BOOT.id == marker, *own)).scalar()
    if created_at is None:
        raise UnknownMarker(marker)
    # An index begins to read there. With two comparisons that it can look up, newer releases of SQLite would
    # read both whole, and sort them.
    return sa.and_(_BOOT.created_at <= created_at, sa.or_(_BOOT.created_at != created_at, _BOOT.id < marker))


Key = tuple[str, str]

_DIGITS = 10
_FIRST = sa.func.min(sa.cast(_INSTANCE.position + 10 ** (_DIGITS - 1), sa.Text).concat(_INSTANCE.name))
"""The lowest position, in so many digits, and the name of the instance there: each row is read once."""


def _count(
    tx: Connection, boot_ids: Sequence[str]
) -> tuple[Mapping[Key, Mapping[Status, int]], Mapping[Key, str]]:
    """Count each boot's instances by status, and find the first one's name, by caller id and boot id."""
    column, status = _INSTANCE, SHOWN_STATUS.label("shown")
    statement = (
        sa.select(
            column.caller_id,
            column.reservation_id,
            status,
            sa.func.count().label("number"),
            _FIRST.label("first"),
        )
        .outerjoin_from(t.instances, t.instance_states, t.instance_states.c.uuid == column.uuid)
        .where(column.reservation_id.in_(boot_ids))
        .group_by(column.caller_id, column.reservation_id, status)
    )
    counts: defaultdict[Key, Counter[Status]] = defaultdict(Counter)
    firsts: dict[Key, str] = {}
    for row in tx.execute(statement):
        key = (str(row.caller_id), str(row.reservation_id))
        counts[key][Status(row.shown)] += row.number
        firsts[key] = min(firsts.get(key, row.first), row.first)
    return counts, {key: first[_DIGITS:] for key, first in firsts.items()}
