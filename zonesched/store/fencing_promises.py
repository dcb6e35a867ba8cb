"""Promises of agents to end their instances after so long without an answer of the zone.

Each heartbeat with the promise renews it, and is answered only once that is durable: an agent counts from no
heartbeat that the zone does not know of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.observed_state import Power
from zonesched.model.placement import LIVING_STATUSES, PlacementState
from zonesched.store import moves
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in, one_of

COLUMNS = t.fencing_promises.c
_ALL = Prepared(sa.select(t.fencing_promises))
_RENEW = Prepared(
    sa.update(t.fencing_promises)
    .where(COLUMNS.service_id == sa.bindparam("service"))
    .values(fence_after_s=sa.bindparam("fence_after"), heartbeat=sa.bindparam("beat"))
)
_OF_SERVICE = sa.select(t.fencing_promises).where(COLUMNS.service_id == sa.bindparam("service"))
_OF = Prepared(_OF_SERVICE)
_LOCKED = Prepared(_OF_SERVICE.with_for_update(key_share=True))
_place, _instance, _state = t.placements.c, t.instances.c, t.instance_states.c
_IS_SHELVED = (
    sa.select(_instance.uuid)
    .join(t.instance_states, _state.uuid == _instance.uuid)
    .where(_instance.uuid == _place.uuid, _instance.attempt == _place.number)
    .where(is_in(_instance.status, LIVING_STATUSES), _state.power == Power.OFFLOADED.value)
    .exists()
)
IS_WAITED_FOR = sa.or_(moves.RETURNS_FROM_IT, _IS_SHELVED)
"""Tells of a RELEASING place that a server waits for it: it is being shelved, or returns to its old host."""
_HOSTS = Prepared(
    sa.select(t.hosts.c.id)
    .join(t.placements, _place.host_id == t.hosts.c.id)
    .where(one_of(t.hosts.c.service_id, "services"))
    .where(
        sa.or_(
            _place.state == PlacementState.CONFIRMED.value,
            sa.and_(_place.state == PlacementState.RELEASING.value, IS_WAITED_FOR),
        )
    )
    .distinct()
    .order_by(t.hosts.c.id)
)


@dataclass(frozen=True)
class Promise:
    """One row. `heartbeat`: the id of the last heartbeat with it; no two have the same."""

    service_id: str
    fence_after_s: float
    heartbeat: str


def read_all(tx: Connection) -> Mapping[str, Promise]:
    """Read all promises, by service id."""
    return {row.service_id: Promise(*row) for row in _ALL.all(tx)}


def read(tx: Connection, service_id: str) -> Promise | None:
    """Read the promise of a service, if its agent fences."""
    row = _OF.first(tx, service=service_id)
    return None if row is None else Promise(*row)


def lock(tx: Connection, service_id: str) -> Promise | None:
    """Read the promise of a service, which it cannot renew before the transaction ends."""
    row = _LOCKED.first(tx, service=service_id)
    return None if row is None else Promise(*row)


def renew(tx: Connection, promise: Promise) -> None:
    """Store a heartbeat with a promise."""
    values = {"service": promise.service_id, "fence_after": promise.fence_after_s, "beat": promise.heartbeat}
    if not _RENEW.run(tx, **values):
        tx.execute(sa.insert(t.fencing_promises).values(**vars(promise)))


def withdraw(tx: Connection, service_id: str) -> None:
    """Forget a promise: the agent no longer fences."""
    tx.execute(sa.delete(t.fencing_promises).where(COLUMNS.service_id == service_id))


def occupied_hosts(tx: Connection, service_ids: Collection[str]) -> list[str]:
    """List the hosts of the services that have instances, or that servers wait for, by id.

    Those wait that return to an old host or are being shelved.
    """
    return [row.id for row in _HOSTS.all(tx, services=sorted(service_ids))] if service_ids else []
