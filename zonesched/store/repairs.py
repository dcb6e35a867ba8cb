"""Writes that only a repair makes: they adapt rows to other rows and end no instance.

Each needs an earlier `identity.next_change` in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.capacity import Inventory
from zonesched.model.placement import CLAIMING, PROMISED, InstanceStatus
from zonesched.model.request_spec import (
    DISK_GB,
    MEMORY_MB,
    RESOURCES_SCOPE,
    VCPU,
    Flavor,
    Image,
    RequestSpec,
)
from zonesched.store import claims, instances, placements, reservations
from zonesched.store import tables as t
from zonesched.store.instances import Instance
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.prepared import is_in
from zonesched.store.reservations import ReservationState

_inventory, _place, _instance, _reservation = (
    t.inventories.c,
    t.placements.c,
    t.instances.c,
    t.reservations.c,
)


# -- hosts -------------------------------------------------------------------------------------------------


def recompute_used(tx: Connection, change: int, host_id: str, resource_class: str) -> bool:
    """Set `used` to the sum of the claims; False for a host that no longer exists.

    A class that the host no longer has gets an inventory with a total of 0.
    """
    claimed = _claimed(tx, host_id)[resource_class]
    this = sa.and_(_inventory.host_id == host_id, _inventory.resource_class == resource_class)
    known = tx.execute(sa.select(t.hosts.c.id).where(t.hosts.c.id == host_id)).first()
    if known is None:
        return False
    if not tx.execute(sa.update(t.inventories).where(this).values(used=claimed)).rowcount:
        tx.execute(sa.insert(t.inventories).values(_row_of_nothing(host_id, resource_class, claimed)))
    claims.touch_hosts(tx, change, [host_id])
    return True


def note_excess(tx: Connection, change: int, host_id: str, resource_class: str) -> bool:
    """Record a use above the capacity as that of a host that shrank; False if the use is not above it."""
    this = sa.and_(_inventory.host_id == host_id, _inventory.resource_class == resource_class)
    above = sa.and_(_inventory.used > _inventory.capacity, _inventory.used > _inventory.shrunk_used)
    noted = tx.execute(
        sa.update(t.inventories).where(this, above).values(shrunk_used=_inventory.used)
    ).rowcount
    claims.touch_hosts(tx, change, [host_id] if noted else [])
    return bool(noted)


def _claimed(tx: Connection, host_id: str) -> Counter[str]:
    statement = sa.select(_place.resources).where(
        _place.host_id == host_id,
        _place.kind == "host",
        is_in(_place.state, CLAIMING),
    )
    found: Counter[str] = Counter()
    for text in tx.execute(statement).scalars():
        found.update(orjson.loads(text))
    return found


def _row_of_nothing(host_id: str, resource_class: str, used: int) -> dict[str, Any]:
    nothing = Inventory(0)
    return {
        "host_id": host_id,
        "resource_class": resource_class,
        "total": nothing.total,
        "reported_reserved": nothing.reserved,
        "reported_ratio": nothing.allocation_ratio,
        "reserved": nothing.reserved,
        "allocation_ratio": nothing.allocation_ratio,
        "min_unit": nothing.min_unit,
        "max_unit": nothing.max_unit,
        "step_size": nothing.step_size,
        "capacity": nothing.capacity,
        "used": used,
        "shrunk_used": used,
    }


# -- boots and instances -----------------------------------------------------------------------------------


def is_leased(tx: Connection, caller_id: str, reservation_id: str, now: float) -> bool:
    """Tell whether a worker holds a lease of this boot."""
    statement = sa.select(_reservation.lease_expires_at).where(*_boot(caller_id, reservation_id))
    expires_at = tx.execute(statement).scalar()
    return expires_at is not None and expires_at > now


def make_due(tx: Connection, caller_id: str, reservation_id: str, now: float) -> bool:
    """Make a boot of this zone's users due now, settled or not; False if it does not exist."""
    statement = (
        sa.update(t.reservations)
        .where(*_boot(caller_id, reservation_id))
        .where(_reservation.state != ReservationState.SERVED.value)
        .values(
            state=ReservationState.OPEN.value,
            next_work_at=now,
            lease_expires_at=0.0,
            # A paused worker must not overwrite this decision.
            lease_number=_reservation.lease_number + 1,
            wakes=_reservation.wakes + 1,
        )
    )
    return bool(tx.execute(statement).rowcount)


def recount(tx: Connection, caller_id: str, reservation_id: str) -> int:
    """Set a boot's number of instances to its rows and return it; a boot without any is deleted."""
    members = sa.select(sa.func.count()).where(
        _instance.reservation_id == reservation_id, _instance.caller_id == caller_id
    )
    count = tx.execute(members).scalar_one()
    this = _boot(caller_id, reservation_id)
    if not count:
        tx.execute(sa.delete(t.reservations).where(*this))
        return 0
    least = sa.case((_reservation.min_count > count, count), else_=_reservation.min_count)
    tx.execute(sa.update(t.reservations).where(*this).values(num_instances=count, min_count=least))
    return int(count)


def restore_boot(tx: Connection, zone_uuid: str, uuid: str, now: float) -> bool:
    """Restore the missing boot of an instance from its row and placements; False if the boot exists."""
    orphan = instances.read_by_uuid(tx, [uuid]).get(uuid)
    if orphan is None:
        return False
    key = (orphan.caller_id, orphan.reservation_id)
    if key in reservations.read_ids(tx, [orphan.reservation_id]):
        return False
    own = orphan.caller_id == zone_uuid
    reservations.insert(
        tx,
        reservations.of_request(
            _spec_of(orphan, placements.read_by_uuid(tx, [uuid])),
            reservation_id=orphan.reservation_id,
            caller_id=orphan.caller_id,
            user_id=orphan.user_id,
            min_count=1 if own else 0,
            state=ReservationState.SETTLED if own else ReservationState.SERVED,
            now=now,
        ),
    )
    if own:
        recount(tx, *key)
    return True


def _spec_of(orphan: Instance, places: Sequence[Placement]) -> RequestSpec:
    """Rebuild the known parts of the request: the size from the claims on a host, the image properties."""
    amounts: dict[str, int] = {}
    for place in places:
        if isinstance(place.where, ClaimedHost):
            amounts |= place.where.resources
    usual = {name: amounts.get(name, 0) for name in (VCPU, MEMORY_MB, DISK_GB)}
    flavor = Flavor(
        orphan.flavor_id,
        orphan.flavor_id,
        usual[VCPU],
        usual[MEMORY_MB],
        usual[DISK_GB],
        {RESOURCES_SCOPE + name: str(amount) for name, amount in sorted(amounts.items())},
    )
    return RequestSpec(
        request_id=orphan.reservation_id,
        project_id=orphan.project_id,
        num_instances=1,
        flavor=flavor,
        image=Image("", "", orjson.loads(orphan.image_key)),
    )


def restore_instance(tx: Connection, change: int, uuid: str, now: float) -> bool:
    """Restore the missing instance of living placements from its boot; False if the boot is missing too.

    It is ACTIVE on a local host until the agent reports otherwise, and UNKNOWN in a child until it reports.
    """
    living = [p for p in placements.read_by_uuid(tx, [uuid]) if p.state in PROMISED]
    if not living:
        return False
    place = living[-1]
    boots = reservations.read_ids(tx, [place.reservation_id])
    boot = boots.get((place.caller_id, place.reservation_id))
    if boot is None:
        return False
    siblings = instances.read_reservation(tx, place.caller_id, place.reservation_id)
    on_host = isinstance(place.where, ClaimedHost)
    row = instances.of_request(
        boot.spec,
        uuid=uuid,
        reservation_id=boot.id,
        caller_id=place.caller_id,
        user_id=boot.user_id,
        position=1 + max((sibling.position for sibling in siblings), default=-1),
        name=uuid,
        status=InstanceStatus.ACTIVE if on_host else InstanceStatus.UNKNOWN,
        attempt=place.number,
        now=now,
    )
    instances.insert(tx, change, [row])
    return True


def _boot(caller_id: str, reservation_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (_reservation.id == reservation_id, _reservation.caller_id == caller_id)


# -- places ------------------------------------------------------------------------------------------------


def keep_entry_once(tx: Connection, entry_key: str) -> int:
    """Let the first placement that used an entry keep it; return the number of the others."""
    used = placements.read(tx, _place.entry_key == entry_key)
    _, *others = sorted(used, key=lambda p: (p.retained_until, p.uuid, p.number))
    for other in others:
        tx.execute(
            sa.update(t.placements)
            .where(_place.uuid == other.uuid, _place.number == other.number)
            .values(entry_key=None)
        )
    return len(others)


# -- groups ------------------------------------------------------------------------------------------------


def leave_group(tx: Connection, change: int, uuids: Sequence[str]) -> None:
    """Remove instances from their group; they stay where they are."""
    for some in claims.chunks(sorted(uuids)):
        tx.execute(
            sa.update(t.instances).where(_instance.uuid.in_(some)).values(group_id="", changed_seq=change)
        )
        hosts = sa.select(_place.host_id).where(_place.uuid.in_(some), _place.kind == "host").distinct()
        claims.touch_uses(tx, change, sorted(tx.execute(hosts).scalars()))
