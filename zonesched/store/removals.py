"""Removal of hosts and of agents' services.

No row of a removed host stays. A table in memory learns of it by a count of removals: when the count
has grown, the table reads the ids of all hosts.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.errors import NotFound
from zonesched.model.placement import CLAIMING, PlacementState
from zonesched.store import fencing_promises, identity, locks, placements
from zonesched.store import tables as t
from zonesched.store.prepared import is_in


def remove_host(tx: Connection, change: int, host_id: str) -> bool:
    """Remove a host with its rows; False, with nothing done, while it has claims.

    A RELEASING place that only waits for the host's agent ends with the host, but not one that a server must
    have left before it may run elsewhere. Raises NotFound for a host that another transaction has removed
    meanwhile.
    """
    # The same lock order as an agent's report: the service's row, the boots, then the host.
    service = sa.select(t.services.c.id).join(t.hosts).where(t.hosts.c.id == host_id)
    tx.execute(service.with_for_update(of=t.services, key_share=True))
    place = t.placements.c
    releasing = PlacementState.RELEASING
    is_waiting = (place.host_id == host_id, place.state == releasing.value)
    locks.instances(tx, [p.uuid for p in placements.read(tx, *is_waiting)])
    locks.hosts(tx, [host_id])
    is_needed = sa.and_(place.state == releasing.value, fencing_promises.IS_WAITED_FOR)
    is_claimed = sa.or_(is_in(place.state, CLAIMING - {releasing}), is_needed)
    claims = sa.select(place.uuid).where(place.host_id == host_id, is_claimed)
    if tx.execute(claims.limit(1)).first() is not None:
        return False
    placements.move_all(tx, change, placements.read(tx, *is_waiting), PlacementState.RELEASED)
    if not tx.execute(sa.delete(t.hosts).where(t.hosts.c.id == host_id)).rowcount:
        raise NotFound("There is no such host.", code="service_not_found", field="id")
    identity.next_removal(tx)
    return True


def remove_service(tx: Connection, service_id: str) -> bool:
    """Remove an agent's service; False, with nothing done, while it has hosts.

    Raises NotFound for one that another transaction has removed meanwhile.
    """
    tx.execute(sa.select(t.services.c.id).where(t.services.c.id == service_id).with_for_update())
    if tx.execute(sa.select(t.hosts.c.id).where(t.hosts.c.service_id == service_id).limit(1)).first():
        return False
    fencing_promises.withdraw(tx, service_id)
    if not tx.execute(sa.delete(t.services).where(t.services.c.id == service_id)).rowcount:
        raise NotFound("There is no such service.", code="service_not_found", field="id")
    return True
