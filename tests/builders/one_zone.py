"""One real zone on a database, and rows put straight into it: what store and service tests start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.migrated import a_database
from tests.builders.options import loaded
from tests.builders.stores import open_store
from zonesched.model.caller import Caller, Role
from zonesched.model.decision_trace import NO_TRACE
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.model.views import HostForm, InventoryForm
from zonesched.seal.passwords import ScryptCost
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import claims, identity, instances, new_placements, placements, reservations
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, ClaimedHost, Placement, Where
from zonesched.store.reservations import Reservation, ReservationState
from zonesched.store.store import Store

AGENT = Caller("agent-user", "agent", Role.COMPUTE, "")
RESERVATION = "11111111-1111-4111-8111-111111111111"
KEY = "aa" * 32
CHEAP_PASSWORDS = ScryptCost(n=16, r=1, p=1)
"""Cost of a password where the time of its check is not what is tested."""


def a_store(folder: Path) -> Store:
    """An empty database of the present schema."""
    return open_store(a_database(folder / "zone.sqlite"))


def a_zone(folder: Path, clock: FakeClock | None = None, **overrides: Any) -> Zone:
    """A zone without hosts, users and background work."""
    url = a_database(folder / "zone.sqlite")
    conf = loaded(
        {
            "state_path": str(folder),
            "database_url": url,
            "build_plan_encryption_key": [KEY],
            "secret_encryption_key": KEY,
            "child_networks": ["loopback", "private"],
            **overrides,
        }
    )
    return Zone.open(
        conf,
        clock=clock or FakeClock(),
        executor=InlineExecutor(),
        store=open_store(url),
        password_cost=CHEAP_PASSWORDS,
    )


def a_form(name: str, **totals: int) -> HostForm:
    """A host as an agent reports it: 8 VCPU and 8192 MEMORY_MB, unless `totals` says otherwise."""
    inventories = {c: InventoryForm(total=n) for c, n in (totals or {"VCPU": 8, "MEMORY_MB": 8192}).items()}
    return HostForm(name, f"10.0.0.{len(name)}", "az1", inventories)


def add_hosts(zone: Zone, *forms: HostForm, service: str = "agent", caller: Caller = AGENT) -> list[str]:
    """Register hosts; their ids."""
    return [host_id for host_id, _ in hosts.register(zone, caller, service, forms).hosts]


def beat(zone: Zone, service: str = "agent", caller: Caller = AGENT) -> None:
    """An agent says that it lives, and that is written down at once."""
    hosts.beat(zone, caller, service)
    zone.heartbeats.write()


def a_spec(vcpus: int = 1, ram_mb: int = 512, reservation_id: str = RESERVATION) -> RequestSpec:
    return RequestSpec(
        request_id=reservation_id,
        project_id="project-1",
        num_instances=1,
        flavor=Flavor("f1", "small", vcpus, ram_mb, 0),
        image=Image("i1", "plain", {"os": "linux"}),
    )


def put_reservation(
    zone: Zone,
    reservation_id: str = RESERVATION,
    *,
    caller_id: str = "",
    num_instances: int = 1,
    state: ReservationState = ReservationState.SETTLED,
) -> None:
    """A reservation of this zone's own users, unless `caller_id` names a parent's user."""
    row = Reservation(
        id=reservation_id,
        caller_id=caller_id or zone.uuid,
        project_id="project-1",
        user_id="user-1",
        spec=a_spec(reservation_id=reservation_id),
        num_instances=num_instances,
        min_count=1,
        state=state,
        reason="",
        why=NO_TRACE,
        selects=0,
        idempotency_key="",
        fingerprint="",
        created_at=zone.clock.now(),
    )
    zone.store.write(lambda tx: reservations.insert(tx, row))


def put_instance(
    zone: Zone,
    uuid: str = "",
    *,
    status: InstanceStatus = InstanceStatus.ACTIVE,
    attempt: int = 1,
    caller_id: str = "",
    reservation_id: str = RESERVATION,
    group_id: str = "",
) -> str:
    """An instance of a reservation; its uuid."""
    row = Instance(
        uuid=uuid or zone.clock.new_uuid(),
        caller_id=caller_id or zone.uuid,
        project_id="project-1",
        user_id="user-1",
        reservation_id=reservation_id,
        position=0,
        name="vm",
        passthrough={},
        flavor_id="small",
        image_key="{}",
        group_id=group_id,
        status=status,
        reason="",
        attempt=attempt,
        created_at=zone.clock.now(),
        updated_at=zone.clock.now(),
    )
    zone.store.write(lambda tx: instances.insert(tx, identity.next_change(tx), [row]))
    return row.uuid


def put_place(
    zone: Zone,
    uuid: str,
    where: Where,
    *,
    number: int = 1,
    state: PlacementState = PlacementState.CONFIRMED,
    caller_id: str = "",
    reservation_id: str = RESERVATION,
    claimed: bool = True,
    hold_expires_at: float | None = None,
    entry_key: str = "",
) -> Placement:
    """A place of an instance; on an own host with its claim, unless it is not `claimed`."""
    now = zone.clock.now()
    place = Placement(
        uuid=uuid,
        number=number,
        caller_id=caller_id or zone.uuid,
        reservation_id=reservation_id,
        where=where,
        state=state,
        reason="",
        hold_expires_at=now + 30.0 if hold_expires_at is None else hold_expires_at,
        retained_until=now + 3600.0,
        entry_key=entry_key,
    )

    def fn(tx: sa.Connection) -> None:
        new_placements.insert(tx, [place])
        if isinstance(where, ClaimedHost) and claimed:
            taken = claims.claim(tx, identity.next_change(tx), {where.host_id: 1}, where.resources)
            assert taken[where.host_id] == 1

    zone.store.write(fn)
    return place


def boot_on(zone: Zone, host_id: str, resources: Mapping[str, int] | None = None, **instance: Any) -> str:
    """An ACTIVE instance, confirmed on a host of its own reservation; its uuid."""
    reservation_id = zone.clock.new_uuid()
    put_reservation(zone, reservation_id, caller_id=instance.get("caller_id", ""))
    uuid = put_instance(zone, reservation_id=reservation_id, **instance)
    put_place(
        zone,
        uuid,
        ClaimedHost(host_id, resources or {"VCPU": 1}),
        reservation_id=reservation_id,
        caller_id=instance.get("caller_id", ""),
    )
    return uuid


def boot_below(
    zone: Zone, child_id: str, state: PlacementState = PlacementState.CONFIRMED, **instance: Any
) -> str:
    """An ACTIVE instance in a child zone, of its own reservation; its uuid."""
    reservation_id = zone.clock.new_uuid()
    put_reservation(zone, reservation_id)
    uuid = put_instance(zone, reservation_id=reservation_id, **instance)
    put_place(zone, uuid, AskedChild(child_id, ("blob",)), reservation_id=reservation_id, state=state)
    return uuid


def sql(zone: Zone, statement: str, **values: Any) -> list[Any]:
    """Straight SQL: the rows it gives, if any."""

    def fn(tx: sa.Connection) -> list[Any]:
        result = tx.execute(sa.text(statement), values)
        return list(result) if result.returns_rows else []

    return zone.store.write(fn)


def instance_of(zone: Zone, uuid: str) -> Instance:
    return zone.store.read(lambda tx: instances.read_by_uuid(tx, [uuid]))[uuid]


def places_of(zone: Zone, uuid: str) -> list[Placement]:
    return zone.store.read(lambda tx: placements.read_by_uuid(tx, [uuid]))


def used_on(zone: Zone, host_id: str) -> dict[str, int]:
    """Claimed amounts on a host, by resource class."""
    statement = "select resource_class, used from inventories where host_id = :id"
    return {row.resource_class: row.used for row in sql(zone, statement, id=host_id)}
