"""Diagnostics, NUMA topology, password and consoles of a server, in OpenStack's shapes."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.errors import BadRequest, Conflict
from zonesched.model.observed_state import Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.shown_status import shown_status
from zonesched.model.views import ServerView
from zonesched.services.owners import server_details, servers

STANDARD = 48
"""Microversion: diagnostics in one form for all hypervisors."""


def diagnostics(call: Call) -> Answer:
    """Show what a zone knows of a running server: its state and its sizes; what it does not know is null."""
    view = servers.show(call.zone, call.caller, call.args["id"], call.is_wanted)
    if not _runs(view):
        status = shown_status(view.status, view.state).value
        message = f"The server is {status}: only one that runs has diagnostics."
        raise Conflict(message, code="instance_not_active")
    return ok(_diagnostics_json(call, view) if call.version.has(STANDARD) else {"memory": _memory_kb(view)})


def _runs(view: ServerView) -> bool:
    return view.status is InstanceStatus.ACTIVE and view.state.observed.power is Power.RUNNING


def topology(call: Call) -> Answer:
    """Show the NUMA topology of a server, of which a zone keeps none."""
    server_details.read(call.zone, call.caller, call.args["id"])
    return ok({"nodes": [], "pagesize_kb": None})


def show_password(call: Call) -> Answer:
    """Show the encrypted password that a server's guest has set, of which a zone keeps none."""
    server_details.read(call.zone, call.caller, call.args["id"])
    return ok({"password": ""})


def clear_password(call: Call) -> Answer:
    """Forget the encrypted password of a server's guest; a zone keeps none."""
    server_details.read(call.zone, call.caller, call.args["id"])
    return no_content()


def open_console(call: Call) -> Answer:
    """Refuse a graphical or serial console, which no driver has."""
    server_details.read(call.zone, call.caller, call.args["id"])
    raise BadRequest(
        "remote_console.type: a zone has no graphical and no serial consoles.",
        code="console_type_unavailable",
        field="remote_console.type",
    )


def _memory_kb(view: ServerView) -> int:
    return view.flavor.ram_mb * 1024


def _diagnostics_json(call: Call, view: ServerView) -> dict[str, Any]:
    built_at = view.launched_at
    return {
        "state": "running",
        "driver": None,
        "hypervisor": None,
        "hypervisor_os": None,
        "uptime": int(max(0.0, call.zone.clock.now() - built_at)) if built_at else None,
        "config_drive": bool(view.passthrough.get("config_drive")),
        "num_cpus": view.flavor.vcpus,
        "num_nics": 0,
        "num_disks": 1,
        "cpu_details": [],
        "nic_details": [],
        "disk_details": [],
        "memory_details": {"maximum": view.flavor.ram_mb, "used": None},
    }
