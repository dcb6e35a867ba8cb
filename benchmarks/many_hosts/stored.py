"""A real zone with many hosts in its database, and claims on some of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.many_hosts.hosts import KINDS, RAM_RESERVED_MB, VCPU_RATIO
from zonesched import conf
from zonesched.model.caller import Caller, Role
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.model.views import HostForm, InventoryForm
from zonesched.services import hosts
from zonesched.services.zone import Zone
from zonesched.store import claims, identity

AGENT = Caller("agent-user", "agent", Role.COMPUTE, "")
HOSTS_PER_REPORT = 2_000


def a_stored_zone(folder: Path, count: int) -> Zone:
    """A zone on SQLite, its hosts empty."""
    zone = Zone.open(conf.load([], {"state_path": str(folder)}))
    for start in range(0, count, HOSTS_PER_REPORT):
        forms = [_form(number) for number in range(start, min(start + HOSTS_PER_REPORT, count))]
        hosts.register(zone, AGENT, "agent", forms)
    return zone


def use_some(zone: Zone, host_ids: Sequence[str]) -> None:
    """Claim for one instance on each of these hosts."""
    wanted = dict.fromkeys(sorted(host_ids), 1)
    zone.store.write(lambda tx: claims.claim(tx, identity.next_change(tx), wanted, {VCPU: 1, MEMORY_MB: 512}))


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
