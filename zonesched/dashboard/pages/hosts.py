"""Hosts of this zone: the heat map with its list, and one host with what an admin can do to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zonesched.dashboard.pages import heat
from zonesched.dashboard.visit import Page, Redirect, Result, Visit
from zonesched.errors import BadRequest, NotFound, ZoneschedError
from zonesched.model.page_link import next_marker
from zonesched.model.shown_status import Status
from zonesched.model.task_state import MOVING

PAGE = 50
LISTED = 200
"""Number of a host's servers that its page lists at most."""

MOVE_WITHIN_S = 10.0
"""Seconds after which a request asks no further instances to move away."""


@dataclass(frozen=True)
class _Moved:
    """Outcome of moving instances away: how many were asked to, (name, message) of the others.

    `left`: how many there was no time for.
    """

    asked: int = 0
    refused: Sequence[tuple[str, str]] = ()
    left: int = 0


NOTHING_MOVED = _Moved()


def list_all(visit: Visit) -> Page:
    """Show the heat map, and a page of the list."""
    found = _list(visit)
    classes = heat.classes(visit)
    asked = visit.query.get("class", "")
    return Page(
        "hosts.html",
        {
            "hosts": found["hypervisors"],
            "marker": next_marker(found, "hypervisors"),
            "sums": heat.sums(visit),
            "classes": classes,
            "shown_class": asked if asked in classes else next(iter(_by_use(classes)), ""),
            "group": "aggregate" if visit.query.get("group") == "aggregate" else "az",
        },
    )


def show(visit: Visit) -> Page:
    """Show one host with its inventory and its instances."""
    return _page(visit, NOTHING_MOVED)


def change(visit: Visit) -> Result:
    """Disable, enable, force down or empty a host."""
    id = visit.args["id"]
    service = f"/os-services/{id}"
    reason = {"disabled_reason": visit.form.get("reason")} if visit.form.get("reason") else {}
    match visit.form.get("do"):
        case "disable":
            visit.write("PUT", service, {"status": "disabled", **reason})
        case "enable":
            visit.write("PUT", service, {"status": "enabled"})
        case "force_down":
            visit.write("PUT", service, {"forced_down": True})
        case "release":
            visit.write("PUT", service, {"forced_down": False})
        case "drain":
            # A host that is disabled already keeps its reason.
            if reason or _host(visit)["status"] != "disabled":
                visit.write("PUT", service, {"status": "disabled", **reason})
            return _page(visit, _move_away(visit))
        case _:
            raise BadRequest("do: there is no such action.", field="do")
    return Redirect(f"/dashboard/hosts/{id}")


def _list(visit: Visit) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = visit.read(
            "/os-hypervisors/detail",
            limit=str(PAGE),
            marker=visit.query.get("marker", ""),
            hypervisor_hostname_pattern=visit.query.get("name", ""),
        )
    except NotFound:
        return {"hypervisors": []}
    return found


def _by_use(classes: Sequence[str]) -> list[str]:
    """Return the classes with those first that most hosts run out of."""
    return sorted(classes, key=lambda name: (name != "MEMORY_MB", name != "VCPU", name))


def _host(visit: Visit) -> Mapping[str, Any]:
    id = visit.args["id"]
    found: Mapping[str, Any] = visit.read(f"/os-hypervisors/{id}", with_servers="true")["hypervisor"]
    return found


def _page(visit: Visit, moved: _Moved) -> Page:
    host = _host(visit)
    name = host["hypervisor_hostname"]
    services = visit.read("/os-services", host=name)["services"]
    service = next((one for one in services if one["id"] == host["id"]), None)
    return Page(
        "host.html",
        {
            "host": host,
            "service": service,
            "servers": _servers(visit, name),
            "listed": LISTED,
            "moving": len(_moving(visit, name)),
            "moved": moved,
        },
    )


def _servers(visit: Visit, host_name: str) -> Sequence[Mapping[str, Any]]:
    """List the servers of this zone's users on a host, with their details."""
    found: Sequence[Mapping[str, Any]] = visit.read(
        "/servers/detail", host=host_name, limit=str(LISTED), all_tenants="true"
    )["servers"]
    return found


def _moving(visit: Visit, host_name: str) -> set[str]:
    """Return the ids of all servers that are on their way from a host to another one."""
    asked = {"host": host_name, "task_state": MOVING, "all_tenants": "true"}
    found = visit.read_all("/servers/detail", "servers", **asked)
    # A list has them for their status alone.
    found += visit.read_all("/servers/detail", "servers", **asked, status=Status.SOFT_DELETED.value)
    return {server["id"] for server in found}


def _move_away(visit: Visit) -> _Moved:
    """Ask each instance that is not on its way yet to move, as long as there is time."""
    host = _host(visit)
    moving = _moving(visit, host["hypervisor_hostname"])
    servers = [server for server in host["servers"] if server["uuid"] not in moving]
    clock = visit.zone.clock
    until = clock.monotonic() + MOVE_WITHIN_S
    refused: list[tuple[str, str]] = []
    for number, server in enumerate(servers):
        if clock.monotonic() >= until:
            return _Moved(number - len(refused), refused, len(servers) - number)
        try:
            visit.write("POST", f"/servers/{server['uuid']}/action", {"migrate": None})
        except ZoneschedError as fault:
            refused.append((server["name"], fault.message))
    return _Moved(len(servers) - len(refused), refused)
