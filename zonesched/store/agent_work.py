"""What an agent's service has to run: confirmed places of living instances on its hosts."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import spec_from_row
from zonesched.model.views import DesiredInstance
from zonesched.store import claims
from zonesched.store import tables as t

LIVING = (InstanceStatus.BUILD, InstanceStatus.ACTIVE, InstanceStatus.UNKNOWN)

_host, _place, _instance = t.hosts.c, t.placements.c, t.instances.c
_DESIRED = (
    sa.select(
        _place.uuid,
        _place.number,
        _host.name,
        _instance.name.label("instance_name"),
        _place.caller_id,
        _place.reservation_id,
        _instance.status,
    )
    .join(t.hosts, _host.id == _place.host_id)
    .join(t.instances, sa.and_(_instance.uuid == _place.uuid, _instance.attempt == _place.number))
    .where(_host.service_id == sa.bindparam("service"))
    .where(_place.state == PlacementState.CONFIRMED.value)
    .where(_instance.status.in_([status.value for status in LIVING]))
    .order_by(_host.name, _place.uuid)
)


def desired(tx: Connection, service_id: str) -> list[DesiredInstance]:
    """All that should run on the service's hosts, by host and instance."""
    found = tx.execute(_DESIRED, {"service": service_id}).all()
    specs = _specs(tx, sorted({row.reservation_id for row in found}))
    return [
        DesiredInstance(
            row.uuid,
            row.number,
            row.name,
            row.instance_name,
            spec.flavor,
            spec.image,
            InstanceStatus(row.status),
            request_id=spec.traced_by,
            reservation_id=row.reservation_id,
        )
        for row in found
        if (spec := specs.get((row.caller_id, row.reservation_id))) is not None
    ]


def hosts_of(tx: Connection, service_id: str, host_ids: Sequence[str]) -> frozenset[str]:
    """Those of the hosts that are the service's."""
    found: set[str] = set()
    for some in claims.chunks(host_ids):
        column = t.hosts.c
        found.update(
            tx.execute(
                sa.select(column.id).where(column.service_id == service_id, column.id.in_(some))
            ).scalars()
        )
    return frozenset(found)


def _specs(tx: Connection, reservation_ids: Sequence[str]) -> dict[tuple[str, str], RequestSpec]:
    column = t.reservations.c
    found: dict[tuple[str, str], RequestSpec] = {}
    for some in claims.chunks(reservation_ids):
        rows = tx.execute(sa.select(column.caller_id, column.id, column.spec).where(column.id.in_(some)))
        found |= {(row.caller_id, row.id): spec_from_row(orjson.loads(row.spec)) for row in rows}
    return found
