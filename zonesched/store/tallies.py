"""Counts over all rows of a zone. Each walks an index or a table: callers limit how often that happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared
from zonesched.store.reservations import ReservationState

MAX_CLASSES = 100
"""Resource classes that are summed up, the first by name: agents may report any number."""

_instance, _place, _boot, _host = t.instances.c, t.placements.c, t.reservations.c, t.hosts.c
_service, _inventory = t.services.c, t.inventories.c
_NUMBER = sa.func.count().label("number")
_INSTANCES = Prepared(sa.select(_instance.status, _NUMBER).group_by(_instance.status))
_PLACEMENTS = Prepared(sa.select(_place.state, _NUMBER).where(t.PLACE_IS_IN_MOTION).group_by(_place.state))
_IS_LEASED = sa.case((_boot.lease_expires_at > sa.bindparam("now"), 1), else_=0)
_BOOTS = Prepared(
    sa.select(_NUMBER, sa.func.sum(_IS_LEASED).label("leased")).where(
        _boot.state == ReservationState.OPEN.value
    )
)
_IS_HEARD = sa.and_(
    sa.not_(_service.forced_down), _service.last_seen_at.between(sa.bindparam("since"), sa.bindparam("until"))
)
_IS_UP = sa.case((sa.and_(_IS_HEARD, sa.not_(_host.forced_down)), 1), else_=0).label("is_up")
_HOSTS = Prepared(
    sa.select(_host.enabled, _IS_UP, _NUMBER)
    .join_from(t.hosts, t.services, _host.service_id == _service.id)
    .group_by(_host.enabled, sa.text("is_up"))
)
_SERVICE_UP = sa.case((_IS_HEARD, 1), else_=0).label("is_up")
_SERVICES = Prepared(
    sa.select(_service.binary, _SERVICE_UP, _NUMBER).group_by(_service.binary, sa.text("is_up"))
)
_CAPACITIES = Prepared(
    sa.select(
        _inventory.resource_class,
        sa.func.sum(_inventory.capacity).label("capacity"),
        sa.func.sum(_inventory.used).label("used"),
    )
    .group_by(_inventory.resource_class)
    .order_by(_inventory.resource_class)
    .limit(MAX_CLASSES)
)


@dataclass(frozen=True)
class Tallies:
    """Counts of one moment.

    `instances` by status; `placements` by state, those in motion only: in the other states are all that ever
    were; `hosts` by (is enabled, is up); `services` by (binary, is up); `capacity` and `used` by resource
    class, over all hosts; `leased_boots` of `open_boots`.
    """

    instances: Mapping[str, int]
    placements: Mapping[str, int]
    hosts: Mapping[tuple[bool, bool], int]
    services: Mapping[tuple[str, bool], int]
    capacity: Mapping[str, int]
    used: Mapping[str, int]
    open_boots: int
    leased_boots: int


def count(tx: Connection, now: float, down_time_s: float) -> Tallies:
    """Count everything; `down_time_s`: seconds without a heartbeat after which an agent is down."""
    heard = {"since": now - down_time_s, "until": now + down_time_s}
    classes = _CAPACITIES.all(tx)
    boots = _BOOTS.first(tx, now=now)
    return Tallies(
        instances={row.status: row.number for row in _INSTANCES.all(tx)},
        placements={row.state: row.number for row in _PLACEMENTS.all(tx)},
        hosts={(bool(row.enabled), bool(row.is_up)): row.number for row in _HOSTS.all(tx, **heard)},
        services={(row.binary, bool(row.is_up)): row.number for row in _SERVICES.all(tx, **heard)},
        capacity={row.resource_class: int(row.capacity) for row in classes},
        used={row.resource_class: int(row.used) for row in classes},
        open_boots=boots.number,
        leased_boots=boots.leased or 0,
    )
