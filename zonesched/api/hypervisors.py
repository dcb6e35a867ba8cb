"""Hosts of this zone, for its admin."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.model.views import HypervisorView, ResourceUse
from zonesched.services import hosts

NOTHING = ResourceUse(total=0, reserved=0, allocation_ratio=1.0, capacity=0, used=0)


def list_brief(call: Call) -> Answer:
    """All hosts of this zone, with id, name and state."""
    return ok({"hypervisors": [_brief(host) for host in hosts.list_hypervisors(call.zone)]})


def list_detail(call: Call) -> Answer:
    """All hosts of this zone, with what they have and what is used."""
    return ok({"hypervisors": [_full(host) for host in hosts.list_hypervisors(call.zone)]})


def show(call: Call) -> Answer:
    """One host of this zone."""
    return ok({"hypervisor": _full(hosts.show_hypervisor(call.zone, call.args["id"]))})


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
        "service": {"host": host.service, "disabled_reason": None},
        "availability_zone": host.availability_zone,
        "resources": {name: asdict(use) for name, use in host.resources.items()},
        "capabilities": dict(host.capabilities),
        "traits": sorted(host.traits),
    }
