"""OpenStack's older call for hosts, which `openstack host` still makes."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import BadRequest, NotFound
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.model.views import Binary, HypervisorView, ServiceChange
from zonesched.services.hosts import hosts, services

SERVICE = "compute"
NAMES = {VCPU: "cpu", MEMORY_MB: "memory_mb", DISK_GB: "disk_gb"}


def list_all(call: Call) -> Answer:
    """List the hosts of this zone by name."""
    found = services.list_services(call.zone, binary=Binary.HOST.value)
    wanted = [one for one in found if call.query.zone in ("", one.availability_zone)]
    return ok(
        {
            "hosts": [
                {"host_name": one.host, "service": SERVICE, "zone": one.availability_zone} for one in wanted
            ]
        }
    )


def show(call: Call) -> Answer:
    """Show a host's capacity and the amounts that are claimed of it."""
    found = services.list_services(call.zone, call.args["name"], Binary.HOST.value)
    if not found:
        raise NotFound("There is no such host.", code="host_not_found", field="name")
    host = hosts.show_hypervisor(call.zone, found[0].id)
    totals, used = _amounts(host, "(total)"), _amounts(host, "(used_now)")
    return ok({"host": [{"resource": totals}, {"resource": used}]})


def change(call: Call) -> Answer:
    """Enable or disable a host; a zone knows no maintenance mode of a host."""
    asked = call.body
    if asked.maintenance_mode is not None or asked.status is None:
        raise BadRequest("status: must be enable or disable, alone.", field="status")
    wanted = ServiceChange(is_enabled=asked.status == "enable")
    changed = services.change_named(call.zone, call.args["name"], Binary.HOST.value, wanted)
    return ok({"host": changed.host, "status": "enabled" if changed.is_enabled else "disabled"})


def _amounts(host: HypervisorView, project: str) -> dict[str, Any]:
    uses = {NAMES[name]: use for name, use in host.resources.items() if name in NAMES}
    is_total = project == "(total)"
    amounts = {name: use.total if is_total else use.used for name, use in uses.items()}
    return {"host": host.name, "project": project, **dict.fromkeys(NAMES.values(), 0), **amounts}
