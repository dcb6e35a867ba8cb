"""Hosts of this zone, for its admin."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import NotFound
from zonesched.model.capacity import NOTHING_SET, Inventory
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.model.views import HypervisorView, ResourceUse
from zonesched.services.hosts import host_settings, hosts

SUMMED = (
    "vcpus",
    "vcpus_used",
    "memory_mb",
    "memory_mb_used",
    "free_ram_mb",
    "local_gb",
    "local_gb_used",
    "free_disk_gb",
    "running_vms",
)

NOTHING = ResourceUse(0, 0, 1.0, capacity=0, used=0, reported=Inventory(0), setting=NOTHING_SET)


def list_brief(call: Call) -> Answer:
    """List all hosts of this zone, with id, name and state."""
    return ok({"hypervisors": [_brief(host) for host in hosts.list_hypervisors(call.zone)]})


def list_detail(call: Call) -> Answer:
    """List all hosts of this zone, with their inventories and usage."""
    return ok({"hypervisors": [_full(host) for host in hosts.list_hypervisors(call.zone)]})


def statistics(call: Call) -> Answer:
    """Sum up the inventories and usage of all hosts of this zone."""
    found = [_full(host) for host in hosts.list_hypervisors(call.zone)]
    sums = {name: sum(host[name] for host in found) for name in SUMMED}
    return ok({"hypervisor_statistics": {"count": len(found), **sums}})


def search(call: Call) -> Answer:
    """List the hosts whose names have this text in them."""
    found = [host for host in hosts.list_hypervisors(call.zone) if call.args["id"] in host.name]
    if not found:
        raise NotFound("No host of this zone has such a name.", code="host_not_found", field="id")
    return ok({"hypervisors": [_brief(host) for host in found]})


def show(call: Call) -> Answer:
    """Show one host of this zone."""
    return ok({"hypervisor": _full(hosts.show_hypervisor(call.zone, call.args["id"]))})


def change(call: Call) -> Answer:
    """Set the ratio and reserved amounts of one host, or remove such a setting."""
    changed = host_settings.change(call.zone, call.args["id"], call.body.to_changes())
    return ok({"hypervisor": _full(changed)})


def _brief(host: HypervisorView) -> dict[str, Any]:
    return {
        "id": host.id,
        "hypervisor_hostname": host.name,
        "state": "up" if host.is_up else "down",
        "status": "enabled" if host.is_enabled else "disabled",
    }


def _full(host: HypervisorView) -> dict[str, Any]:
    vcpu, ram, disk = (host.resources.get(name, NOTHING) for name in (VCPU, MEMORY_MB, DISK_GB))
    return {
        **_brief(host),
        "host_ip": host.address,
        "hypervisor_type": str(host.capabilities.get("hypervisor_type", "")),
        "vcpus": vcpu.total,
        "vcpus_used": vcpu.used,
        "memory_mb": ram.total,
        "memory_mb_used": ram.used,
        "free_ram_mb": ram.capacity - ram.used,
        "local_gb": disk.total,
        "local_gb_used": disk.used,
        "free_disk_gb": disk.capacity - disk.used,
        "running_vms": host.num_instances,
        "service": {"host": host.service, "disabled_reason": host.disabled_reason or None},
        "availability_zone": host.availability_zone,
        "aggregates": list(host.aggregates),
        "resources": {name: _use(use) for name, use in host.resources.items()},
        "capabilities": dict(host.capabilities),
        "traits": sorted(host.traits),
    }


def _use(use: ResourceUse) -> dict[str, Any]:
    return {
        "total": use.total,
        "reserved": use.reserved,
        "allocation_ratio": use.allocation_ratio,
        "capacity": use.capacity,
        "used": use.used,
        "agent_excess": use.agent_excess,
        "reported": {
            "reserved": use.reported.reserved,
            "allocation_ratio": use.reported.allocation_ratio,
        },
        "set": {name: value for name, value in vars(use.setting).items() if value is not None},
    }
