"""Hosts of this zone, for its admin."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.schemas.fields import UUID
from zonesched.errors import BadRequest, NotFound
from zonesched.model.capacity import NOTHING_SET, Inventory
from zonesched.model.host_query import HostQuery
from zonesched.model.host_totals import NO_TOTALS, ClassTotals
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.model.views import HypervisorState, HypervisorView, ResourceUse
from zonesched.services.hosts import host_settings, hosts
from zonesched.services.zone import Zone

CPU_INFO_IS_OBJECT, PAGED, WITHOUT_SIZES = 28, 33, 88
"""Microversions: with an object as `cpu_info`; with pages; with a host's uptime, and without sizes of its
workload."""

_UNREPORTED = ("current_workload", "disk_available_least")
"""Sums of what no agent reports."""

PAGE = 1000

Listed = HypervisorState | HypervisorView
H = TypeVar("H", HypervisorState, HypervisorView)

NOTHING = ResourceUse(0, 0, 1.0, capacity=0, used=0, reported=Inventory(0), setting=NOTHING_SET)


def list_brief(call: Call) -> Answer:
    """List the hosts of this zone, with id, name and state."""
    return _list(call, hosts.list_states, _brief)


def list_detail(call: Call) -> Answer:
    """List the hosts of this zone, with their inventories and usage."""
    return _list(call, hosts.list_hypervisors, lambda host: _full(call, host))


def _list(
    call: Call, read: Callable[[Zone, HostQuery], list[H]], to_json: Callable[[H], dict[str, Any]]
) -> Answer:
    query, limit = call.query, _limit(call)
    # A host that is removed while somebody reads page after page leaves its id as the marker.
    if query.marker and not re.fullmatch(UUID, query.marker):
        raise BadRequest("marker must be the id of a hypervisor.", code="marker_unknown", field="marker")
    found = read(call.zone, HostQuery(query.hypervisor_hostname_pattern, query.marker, limit and limit + 1))
    if query.hypervisor_hostname_pattern and not query.marker:
        _check_any(found)
    page = found[: limit or None]
    body: dict[str, Any] = {"hypervisors": [to_json(host) for host in page]}
    if query.with_servers:
        _add_servers(call, page, body["hypervisors"])
    if len(found) > len(page):
        body["hypervisors_links"] = call.links.next_page(page[-1].id)
    return ok(body)


def _limit(call: Call) -> int:
    """Return how many hosts a page has; 0 for a client that knows no pages, or asks for hosts by name."""
    query = call.query
    is_paged = query.marker or (call.version.has(PAGED) and not query.hypervisor_hostname_pattern)
    return query.limit or (PAGE if is_paged else 0)


def _named(call: Call) -> list[HypervisorState]:
    found = hosts.list_states(call.zone, HostQuery(call.args["id"]))
    _check_any(found)
    return found


def _check_any(found: Sequence[Listed]) -> None:
    if not found:
        raise NotFound("No host of this zone has such a name.", code="host_not_found", field="id")


def _add_servers(call: Call, found: Sequence[Listed], to: Sequence[dict[str, Any]]) -> None:
    placed = hosts.instances_on(call.zone.store, [host.id for host in found])
    for host, content in zip(found, to, strict=True):
        content["servers"] = [{"uuid": one.uuid, "name": one.name} for one in placed.get(host.id, ())]


def statistics(call: Call) -> Answer:
    """Sum up the inventories and usage of all hosts of this zone."""
    found = hosts.totals(call.zone)
    sums = {**_sizes(found.by_class, NO_TOTALS), "running_vms": found.instances}
    unknown = dict.fromkeys(() if call.version.has(WITHOUT_SIZES) else _UNREPORTED, 0)
    return ok({"hypervisor_statistics": {"count": found.hosts, **sums, **unknown}})


def search(call: Call) -> Answer:
    """List the hosts whose names have this text in them."""
    return ok({"hypervisors": [_brief(host) for host in _named(call)]})


def list_servers(call: Call) -> Answer:
    """List the hosts whose names have this text in them, with the instances on each."""
    found = _named(call)
    content = [_brief(host) for host in found]
    _add_servers(call, found, content)
    return ok({"hypervisors": content})


def show(call: Call) -> Answer:
    """Show one host of this zone."""
    host = hosts.show_hypervisor(call.zone, call.args["id"])
    content = _full(call, host)
    if call.query.with_servers:
        _add_servers(call, [host], [content])
    return ok({"hypervisor": content})


def show_uptime(call: Call) -> Answer:
    """Show one host of this zone in brief; its agent does not tell how long it is up."""
    # A text, as in OpenStack Nova: `openstack hypervisor show` looks for times in it.
    return ok({"hypervisor": {**_brief(hosts.show_hypervisor(call.zone, call.args["id"])), "uptime": ""}})


def change(call: Call) -> Answer:
    """Set the ratio and reserved amounts of one host, or remove such a setting."""
    changed = host_settings.change(call.zone, call.args["id"], call.body.to_changes())
    return ok({"hypervisor": _full(call, changed)})


def _brief(host: Listed) -> dict[str, Any]:
    return {
        "id": host.id,
        "hypervisor_hostname": host.name,
        "state": "up" if host.is_up else "down",
        "status": "enabled" if host.is_enabled else "disabled",
    }


def _full(call: Call, host: HypervisorView) -> dict[str, Any]:
    return {
        **_brief(host),
        **_unknown(call),
        "host_ip": host.address,
        "hypervisor_type": str(host.capabilities.get("hypervisor_type", "")),
        "hypervisor_version": _whole(host.capabilities.get("hypervisor_version")),
        **_sizes(host.resources, NOTHING),
        "running_vms": host.num_instances,
        "service": {"id": host.id, "host": host.name, "disabled_reason": host.disabled_reason or None},
        "agent": host.service,
        "availability_zone": host.availability_zone,
        "aggregates": list(host.aggregates),
        "resources": {name: _use(use) for name, use in host.resources.items()},
        "capabilities": dict(host.capabilities),
        "traits": sorted(host.traits),
    }


T = TypeVar("T", ResourceUse, ClassTotals)


def _sizes(by_class: Mapping[str, T], nothing: T) -> dict[str, int]:
    vcpu, ram, disk = (by_class.get(name, nothing) for name in (VCPU, MEMORY_MB, DISK_GB))
    return {
        "vcpus": vcpu.total,
        "vcpus_used": vcpu.used,
        "memory_mb": ram.total,
        "memory_mb_used": ram.used,
        "free_ram_mb": ram.capacity - ram.used,
        "local_gb": disk.total,
        "local_gb_used": disk.used,
        "free_disk_gb": disk.capacity - disk.used,
    }


def _unknown(call: Call) -> dict[str, Any]:
    """Members that OpenStack's clients look for, and that no agent reports."""
    if call.version.has(WITHOUT_SIZES):
        return {"uptime": None}
    cpu_info: Any = {} if call.version.has(CPU_INFO_IS_OBJECT) else ""
    return {"cpu_info": cpu_info, "current_workload": 0, "disk_available_least": None}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


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
