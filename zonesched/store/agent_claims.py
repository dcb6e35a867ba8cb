"""Claims on the hosts of an agent's service, and the excess that the agent counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.agent_claims import AgentClaims, BookedClass, ClaimedInstance
from zonesched.model.placement import CLAIMING, LIVING_STATUSES, PlacementState
from zonesched.store import locks
from zonesched.store import tables as t
from zonesched.store.prepared import is_in

_host, _place, _instance, _inventory = t.hosts.c, t.placements.c, t.instances.c, t.inventories.c
_IS_PRESENT = sa.and_(
    _place.state == PlacementState.CONFIRMED.value,
    _instance.uuid.is_not(None),
    is_in(_instance.status, LIVING_STATUSES),
)
_IS_WANTED = sa.or_(_IS_PRESENT, _place.state == PlacementState.PARKED.value)
_CLAIMS = (
    sa.select(_place.uuid, _place.number, _host.name, _place.resources, _IS_WANTED.label("is_wanted"))
    .join(t.hosts, _host.id == _place.host_id)
    .outerjoin(t.instances, sa.and_(_instance.uuid == _place.uuid, _instance.attempt == _place.number))
    .where(_host.service_id == sa.bindparam("service"))
    .where(is_in(_place.state, CLAIMING))
    .order_by(_host.name, _place.uuid, _place.number)
)
_BOOKED = (
    sa.select(_host.name, _inventory.resource_class, _inventory.used, _inventory.agent_excess)
    .join(t.hosts, _host.id == _inventory.host_id)
    .where(_host.service_id == sa.bindparam("service"))
    .where(sa.or_(_inventory.used != 0, _inventory.agent_excess != 0))
    .order_by(_host.name, _inventory.resource_class)
)
_IDS = sa.select(_host.name, _host.id).where(_host.service_id == sa.bindparam("service"))


def read(tx: Connection, service_id: str) -> AgentClaims:
    """Read the claims on the service's hosts, for resource classes in use or with an excess."""
    held: Counter[tuple[str, str]] = Counter()
    wanted: list[ClaimedInstance] = []
    for row in tx.execute(_CLAIMS, {"service": service_id}):
        resources = orjson.loads(row.resources)
        if row.is_wanted:
            wanted.append(ClaimedInstance(row.uuid, row.number, row.name, resources))
        else:
            held.update({(row.name, resource_class): amount for resource_class, amount in resources.items()})
    booked = [
        BookedClass(
            row.name, row.resource_class, row.used, held[row.name, row.resource_class], row.agent_excess
        )
        for row in tx.execute(_BOOKED, {"service": service_id})
    ]
    return AgentClaims(wanted, booked)


def note_excesses(tx: Connection, service_id: str, amounts: Mapping[tuple[str, str], int]) -> None:
    """Store the agent's excess over the claims, by (host name, resource class); claims stay as they are.

    Names of other services' hosts and unknown classes are ignored.
    """
    ids = {row.name: row.id for row in tx.execute(_IDS, {"service": service_id})}
    ours = {(ids[name], class_): n for (name, class_), n in amounts.items() if name in ids}
    if not ours:
        return
    locks.hosts(tx, sorted({host_id for host_id, _ in ours}))
    update = (
        sa.update(t.inventories)
        .where(_inventory.host_id == sa.bindparam("b_host"))
        .where(_inventory.resource_class == sa.bindparam("b_class"))
        .values(agent_excess=sa.bindparam("b_amount"))
    )
    rows = [{"b_host": key[0], "b_class": key[1], "b_amount": ours[key]} for key in sorted(ours)]
    tx.execute(update, rows)
