"""Hosts of a few kinds, partly in use, and the changes that claims make of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from uuid import UUID

from zonesched.model.capacity import Inventory
from zonesched.model.host_row import HostFacts, HostRow, HostUse
from zonesched.model.host_table import HostTable
from zonesched.model.host_uses import HostUses
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU

SERVICE = "agent-1"
KINDS = ((16, 65_536, 500), (32, 131_072, 1_000), (64, 262_144, 2_000), (128, 524_288, 4_000))
"""VCPU, MEMORY_MB and DISK_GB of each kind of host."""

METRICS = ("load", "heat", "bandwidth")
VCPU_RATIO = 4.0
RAM_RESERVED_MB = 2_048


def host_id(number: int) -> str:
    return str(UUID(int=number))


def a_use(rng: random.Random, number: int) -> HostUse:
    """Draw the amounts in use on a host: up to half of its capacity."""
    vcpus, ram_mb, disk_gb = KINDS[number % len(KINDS)]
    instances = rng.randrange(6)
    return HostUse(
        {
            VCPU: rng.randrange(vcpus * 2),
            MEMORY_MB: rng.randrange(ram_mb // 2),
            DISK_GB: rng.randrange(disk_gb // 2),
        },
        owners={f"zone:project-{rng.randrange(20)}": instances},
        flavors={f":flavor-{rng.randrange(5)}": instances},
        images={"{}": instances},
        num_building=rng.randrange(3),
        failed_builds=int(rng.random() < 0.01),
    )


def hosts(count: int, *, classes: int, seed: int = 1) -> Iterator[HostRow]:
    """`count` hosts; `classes` of them differ in static facts, the others are like one of these."""
    rng = random.Random(seed)
    facts_of = [
        {"kind": f"kind-{number}", "hypervisor_type": "QEMU", "hypervisor_version": 6_002_000 + number % 7}
        for number in range(classes)
    ]
    for number in range(count):
        vcpus, ram_mb, disk_gb = KINDS[number % len(KINDS)]
        yield HostRow(
            HostFacts(
                id=host_id(number),
                name=f"host-{number}",
                address=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
                availability_zone=f"az{number % classes % 3}",
                service_id=SERVICE,
                capabilities=facts_of[number % classes],
                traits=frozenset({"HW_CPU_X86_AVX2"} if number % classes % 2 else ()),
            ),
            {
                VCPU: Inventory(vcpus, allocation_ratio=VCPU_RATIO),
                MEMORY_MB: Inventory(ram_mb, reserved=RAM_RESERVED_MB),
                DISK_GB: Inventory(disk_gb),
            },
            a_use(rng, number),
            {name: rng.uniform(0.0, 100.0) for name in METRICS},
        )


def a_table(count: int, *, classes: int) -> HostTable:
    """A table of these hosts, whose agent lives."""
    table = HostTable()
    table.apply(hosts(count, classes=classes))
    table.set_services_up({SERVICE: True})
    return table


def changes(rng: random.Random, count: int, share: float) -> HostUses:
    """New uses of a share of `count` hosts, at least one, as a store reads them."""
    numbers = rng.sample(range(count), max(1, int(count * share)))
    return HostUses.of({host_id(number): a_use(rng, number) for number in numbers})
