"""Counts of instances and boots, for quotas and for those who look whether anything has changed."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import COUNTED_STATUSES, UNCONFIRMED, WANTED, InstanceStatus
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in, unindexed
from zonesched.store.reservations import ReservationState

_instance, _reservation = t.instances.c, t.reservations.c
_INSTANCES = Prepared(
    sa.select(sa.func.count().label("number")).where(
        _instance.caller_id == sa.bindparam("caller"), is_in(_instance.status, COUNTED_STATUSES)
    )
)

# By the index of statuses: by that of its projects each of their instances would be read.
_FAILED_OF_PROJECT = Prepared(
    sa.select(sa.func.count().label("number")).select_from(
        sa.select(_instance.uuid)
        .where(_instance.status == InstanceStatus.ERROR.value)
        .where(unindexed(_instance.caller_id) == sa.bindparam("zone"))
        .where(unindexed(_instance.project_id) == sa.bindparam("project"))
        .limit(sa.bindparam("most"))
        .subquery()
    )
)

# By the index of the open ones: by that of its projects SQLite may read each boot that there was.
_open_boots = sa.select(sa.func.count().label("number")).where(
    _reservation.state == ReservationState.OPEN.value,
    unindexed(_reservation.caller_id) == sa.bindparam("zone"),
)
_OPEN_BOOTS = Prepared(_open_boots)
_OPEN_BOOTS_OF_PROJECT = Prepared(_open_boots.where(_reservation.project_id == sa.bindparam("project")))

_of_project = sa.and_(
    _instance.caller_id == sa.bindparam("caller"), _instance.project_id == sa.bindparam("project")
)


def _sums_of_project(*conditions: sa.TextClause) -> sa.Subquery:
    sums = [sa.func.coalesce(sa.func.sum(size), 0).label(size.name) for size in _SIZES]
    number = sa.func.count().label("number")
    return sa.select(number, *sums).where(_of_project, *conditions).subquery()


_SIZES = (_instance.vcpus, _instance.ram_mb)
# Two indexes have all that is read. The status, which changes, is in neither.
_every, _ended = _sums_of_project(), _sums_of_project(t.INSTANCE_HAS_ENDED)
_SUM_OF_PROJECT = Prepared(
    sa.select(*((column - _ended.c[column.name]).label(column.name) for column in _every.c)).select_from(
        _every.join(_ended, sa.true())
    )
)
# By the index of projects, since the newest change of a small project may be far from the zone's newest.
_NEWEST_CHANGE = Prepared(
    sa.select(sa.func.coalesce(sa.func.max(_instance.changed_seq + 0), 0).label("number")).where(_of_project)
)
# By the index of changes, from the newest on.
_LATER_CHANGE = Prepared(
    sa.select(_instance.changed_seq)
    .where(_instance.caller_id == sa.bindparam("caller"), _instance.changed_seq > sa.bindparam("after"))
    .where(unindexed(_instance.project_id) == sa.bindparam("project"))
    .order_by(_instance.changed_seq.desc())
    .limit(1)
)
_CHANGE = Prepared(
    sa.select(_instance.changed_seq)
    .where(_instance.caller_id == sa.bindparam("caller"), _instance.changed_seq == sa.bindparam("number"))
    .where(unindexed(_instance.project_id) == sa.bindparam("project"))
    .limit(1)
)

_HOLDS = Prepared(
    sa.select(sa.func.count().label("number"))
    .select_from(t.placements)
    .where(t.placements.c.caller_id == sa.bindparam("caller"), t.PLACE_IS_IN_MOTION)
    .where(is_in(t.placements.c.state, UNCONFIRMED))
    # A move's hold has used up no entry.
    .where(t.placements.c.entry_key.is_not(None))
)
_TOMBSTONES = Prepared(
    sa.select(sa.func.count().label("number"))
    .select_from(t.inbound_builds)
    .where(
        t.inbound_builds.c.caller_id == sa.bindparam("caller"),
        t.inbound_builds.c.retained_until <= sa.bindparam("latest"),
        t.IS_TOMBSTONE,
    )
)


def instances(tx: Connection, caller_id: str, project_id: str | None = None) -> int:
    """Count the instances of a parent, or of a project of this zone, that run, may still be built, or rest.

    Those in ERROR take nothing: a boot that fails as a whole leaves its caller what it had before.
    """
    if project_id is None:
        return int(_INSTANCES.first(tx, caller=caller_id).number)
    return sum_of_project(tx, caller_id, project_id).instances


def failed_instances(tx: Connection, zone_uuid: str, project_id: str, most: int) -> int:
    """Count the instances of a project of this zone that are in ERROR, up to `most`."""
    return int(_FAILED_OF_PROJECT.first(tx, zone=zone_uuid, project=project_id, most=most).number)


def newest_change(tx: Connection, caller_id: str, project_id: str) -> int:
    """Read the number of the newest change of a project's instances; 0 for a project without any."""
    return int(_NEWEST_CHANGE.first(tx, caller=caller_id, project=project_id).number)


def later_change(tx: Connection, caller_id: str, project_id: str, after: int) -> int | None:
    """Read the number of the newest change of a project's instances above `after`; None for none.

    It looks through all changes of the zone since, newest first.
    """
    rows = _LATER_CHANGE.all(tx, caller=caller_id, project=project_id, after=after)
    return int(rows[0].changed_seq) if rows else None


def has_change(tx: Connection, caller_id: str, project_id: str, number: int) -> bool:
    """Tell whether one of a project's instances was changed last by the change of this number."""
    return bool(_CHANGE.all(tx, caller=caller_id, project=project_id, number=number))


@dataclass(frozen=True)
class ProjectSum:
    """Number of a project's instances, and the sums of their sizes."""

    instances: int
    vcpus: int
    ram_mb: int


def sum_of_project(tx: Connection, caller_id: str, project_id: str) -> ProjectSum:
    """Sum up the instances of a project that `instances` counts, by the flavors that they have."""
    found = _SUM_OF_PROJECT.first(tx, caller=caller_id, project=project_id)
    return ProjectSum(int(found.number), int(found.vcpus), int(found.ram_mb))


def server_groups(tx: Connection, project_id: str) -> int:
    """Count the server groups of a project."""
    groups = t.server_groups.c
    statement = sa.select(sa.func.count()).where(groups.project_id == project_id)
    return int(tx.execute(statement).scalar_one())


def holds(tx: Connection, caller_id: str) -> int:
    """Count the placements of a parent that were not confirmed and have not ended."""
    return int(_HOLDS.first(tx, caller=caller_id).number)


def has_wanted(tx: Connection, caller_id: str) -> bool:
    """Tell whether any placement of a parent is wanted."""
    # By the instances: there is no index of the placements of a caller.
    place = t.placements.c
    statement = (
        sa.select(place.uuid)
        .join(t.instances, _instance.uuid == place.uuid)
        .where(_instance.caller_id == caller_id, is_in(place.state, WANTED))
    )
    return tx.execute(statement.limit(1)).first() is not None


def tombstones(tx: Connection, caller_id: str, latest: float) -> int:
    """Count the attempts of a parent that ended before they had a placement and are kept until `latest`."""
    return int(_TOMBSTONES.first(tx, caller=caller_id, latest=latest).number)


def open_boots(tx: Connection, zone_uuid: str, project_id: str | None = None) -> int:
    """Count the open boots of this zone's own users, of one project or of all."""
    if project_id is None:
        return int(_OPEN_BOOTS.first(tx, zone=zone_uuid).number)
    return int(_OPEN_BOOTS_OF_PROJECT.first(tx, zone=zone_uuid, project=project_id).number)
