"""A real zone with many hosts in its database, instances on them, and claims on some."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

from benchmarks.many_hosts.hosts import KINDS, RAM_RESERVED_MB, VCPU_RATIO
from zonesched import conf
from zonesched.model.caller import Caller, Role
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.model.views import HostForm, InventoryForm
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import claims, identity, instances, new_placements
from zonesched.store.instances import Instance
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction

AGENT = Caller("agent-user", "agent", Role.COMPUTE, "")
HOSTS_PER_REPORT = 2_000
HOSTS_PER_WRITE = 2_000


def a_stored_zone(folder: Path, count: int, *, database_url: str = "", service: str = "agent") -> Zone:
    """A zone, on SQLite unless another database is named, its hosts empty."""
    own = {"database_url": database_url} if database_url else {}
    zone = Zone.open(conf.load([], {"state_path": str(folder), **own}))
    for start in range(0, count, HOSTS_PER_REPORT):
        forms = [_form(number) for number in range(start, min(start + HOSTS_PER_REPORT, count))]
        hosts.register(zone, AGENT, service, forms)
    return zone


def use_some(zone: Zone, host_ids: Sequence[str]) -> None:
    """Claim for one instance on each of these hosts."""
    wanted = dict.fromkeys(sorted(host_ids), 1)
    zone.store.write(lambda tx: claims.claim(tx, identity.next_change(tx), wanted, {VCPU: 1, MEMORY_MB: 512}))


def put_instances(zone: Zone, per_host: int) -> None:
    """So many living, claimed instances on each host, of many projects and images, some in groups."""
    rng = random.Random(5)
    with zone.hosts.current() as table:
        ids = sorted(table.host_id(row) for row in range(table.size))
    for start in range(0, len(ids) if per_host else 0, HOSTS_PER_WRITE):
        some = ids[start : start + HOSTS_PER_WRITE]
        rows = [_instance(zone, rng, start * per_host + n) for n in range(len(some) * per_host)]
        places = [_place(zone, row, some[n // per_host]) for n, row in enumerate(rows)]
        zone.store.write(partial(_write, rows, places, dict.fromkeys(some, per_host)))


def _write(
    rows: Sequence[Instance], places: Sequence[Placement], wanted: Mapping[str, int], tx: Transaction
) -> None:
    change = identity.next_change(tx)
    instances.insert(tx, change, rows)
    new_placements.insert(tx, places)
    claims.claim(tx, change, wanted, {VCPU: 1, MEMORY_MB: 2_048, DISK_GB: 10})


def _instance(zone: Zone, rng: random.Random, number: int) -> Instance:
    return Instance(
        uuid=str(UUID(int=number)),
        caller_id=zone.uuid,
        project_id=f"project-{rng.randrange(500)}",
        user_id="user-1",
        reservation_id=f"{number // 100:032x}",
        position=number % 100,
        name=f"vm-{number}",
        passthrough={},
        flavor_id=f"flavor-{rng.randrange(10)}",
        image_key=f'{{"hw_architecture":"x86_64","os":"os-{rng.randrange(5)}"}}',
        group_id=f"group-{number // 40}" if number % 4 == 0 else "",
        status=InstanceStatus.ACTIVE,
        reason="",
        attempt=1,
        created_at=zone.clock.now(),
        updated_at=zone.clock.now(),
    )


def _place(zone: Zone, instance: Instance, host_id: str) -> Placement:
    return Placement(
        uuid=instance.uuid,
        number=1,
        caller_id=zone.uuid,
        reservation_id=instance.reservation_id,
        where=ClaimedHost(host_id, {VCPU: 1, MEMORY_MB: 2_048, DISK_GB: 10}),
        state=PlacementState.CONFIRMED,
        reason="",
        hold_expires_at=zone.clock.now(),
        retained_until=zone.clock.now(),
        entry_key="",
    )


def _form(number: int) -> HostForm:
    vcpus, ram_mb, disk_gb = KINDS[number % len(KINDS)]
    return HostForm(
        name=f"host-{number}",
        address="",
        availability_zone=f"az{number % 3}",
        inventories={
            VCPU: InventoryForm(total=vcpus, allocation_ratio=VCPU_RATIO),
            MEMORY_MB: InventoryForm(total=ram_mb, reserved=RAM_RESERVED_MB),
            DISK_GB: InventoryForm(total=disk_gb),
        },
        capabilities={"kind": f"kind-{number % 16}"},
    )
