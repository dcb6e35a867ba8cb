"""Counts of instances and boots, for quotas."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import COUNTED_STATUSES, UNCONFIRMED, WANTED
from zonesched.model.request_spec import Flavor
from zonesched.model.request_wire import flavor_from_wire
from zonesched.store import instance_states
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in
from zonesched.store.reservations import ReservationState

_instance, _reservation = t.instances.c, t.reservations.c
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
    .where(t.inbound_builds.c.caller_id == sa.bindparam("caller"), t.IS_TOMBSTONE)
)


def instances(tx: Connection, caller_id: str, project_id: str | None = None) -> int:
    """Count the instances of a parent, or of a project of this zone, that run, may still be built, or rest.

    Those in ERROR take nothing: a boot that fails as a whole leaves its caller what it had before.
    """
    statement = sa.select(sa.func.count()).where(
        _instance.caller_id == caller_id, is_in(_instance.status, COUNTED_STATUSES)
    )
    if project_id is not None:
        statement = statement.where(_instance.project_id == project_id)
    return int(tx.execute(statement).scalar_one())


@dataclass(frozen=True)
class OfFlavor:
    """Number of a project's instances of one flavor."""

    count: int
    flavor: Flavor


def by_flavor(tx: Connection, caller_id: str, project_id: str) -> list[OfFlavor]:
    """Count the instances of a project as `instances` does, by the flavors that they have.

    Those of one id differ where a flavor was removed and made anew.
    """
    by_boot = (
        sa.select(
            _instance.reservation_id,
            instance_states.PRESENT_FLAVOR.label("present_flavor"),
            sa.func.count().label("number"),
        )
        .select_from(t.instances)
        .outerjoin(t.instance_states, t.instance_states.c.uuid == _instance.uuid)
        .where(
            _instance.caller_id == caller_id,
            _instance.project_id == project_id,
            is_in(_instance.status, COUNTED_STATUSES),
        )
        .group_by(_instance.reservation_id, sa.text("present_flavor"))
    ).subquery()
    flavor = sa.func.coalesce(sa.func.nullif(by_boot.c.present_flavor, ""), _booted_flavor(tx))
    statement = (
        sa.select(flavor.label("flavor_text"), sa.func.sum(by_boot.c.number).label("number"))
        .join(
            t.reservations,
            (_reservation.id == by_boot.c.reservation_id) & (_reservation.caller_id == caller_id),
        )
        .group_by(sa.text("flavor_text"))
    )
    return [
        OfFlavor(int(row.number), flavor_from_wire(orjson.loads(row.flavor_text)))
        for row in tx.execute(statement)
    ]


def _booted_flavor(tx: Connection) -> sa.ColumnElement[str]:
    """Return the text of the flavor of a boot's request."""
    if tx.dialect.name == "postgresql":
        return sa.func.json_extract_path_text(sa.cast(_reservation.spec, sa.JSON), "flavor")
    return sa.func.json_extract(_reservation.spec, "$.flavor")


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


def tombstones(tx: Connection, caller_id: str) -> int:
    """Count the attempts of a parent that ended before they had a placement."""
    return int(_TOMBSTONES.first(tx, caller=caller_id).number)


def open_boots(tx: Connection, zone_uuid: str, project_id: str | None = None) -> int:
    """Count the open boots of this zone's own users, of one project or of all."""
    statement = sa.select(sa.func.count()).where(
        _reservation.state == ReservationState.OPEN.value, _reservation.caller_id == zone_uuid
    )
    if project_id is not None:
        statement = statement.where(_reservation.project_id == project_id)
    return int(tx.execute(statement).scalar_one())
