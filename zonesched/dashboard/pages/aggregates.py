"""Aggregates: the list, and an admin's forms for them and their hosts."""

from __future__ import annotations

from zonesched.dashboard.visit import Page, Redirect, Visit
from zonesched.errors import BadRequest


def list_all(visit: Visit) -> Page:
    """List all aggregates."""
    return Page("aggregates.html", {"aggregates": visit.read("/os-aggregates")["aggregates"]})


def change(visit: Visit) -> Redirect:
    """Add or remove an aggregate, or a host in one."""
    form = visit.form
    path = f"/os-aggregates/{form.get('id')}"
    host = {"host": form.get("host")}
    match form.get("do"):
        case "add":
            zone = {"availability_zone": form.get("zone")} if form.get("zone") else {}
            visit.write("POST", "/os-aggregates", {"aggregate": {"name": form.get("name"), **zone}})
        case "remove":
            visit.write("DELETE", path)
        case "add_host":
            visit.write("POST", f"{path}/action", {"add_host": host})
        case "remove_host":
            visit.write("POST", f"{path}/action", {"remove_host": host})
        case _:
            raise BadRequest("do: there is no such action.", field="do")
    return Redirect("/dashboard/aggregates")
