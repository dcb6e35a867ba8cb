"""Servers: the list with its filters, and one server with its actions."""

from __future__ import annotations

from typing import Any

from zonesched.dashboard.visit import Page, Redirect, Visit
from zonesched.errors import BadRequest
from zonesched.model.page_link import next_marker
from zonesched.model.shown_status import Status

PAGE = "50"
FILTERS = ("status", "name", "flavor", "host", "reservation_id", "project_id")
SHOWN_STATUSES = tuple(status.value for status in Status if status is not Status.DELETED)

WITHOUT_PLACE = frozenset({"BUILD", "ERROR", "SHELVED_OFFLOADED", "DELETED"})
"""Statuses of servers that may have no place."""

ACTIONS: dict[str, Any] = {
    "os-start": None,
    "os-stop": None,
    "pause": None,
    "unpause": None,
    "suspend": None,
    "resume": None,
    "reboot": {"type": "SOFT"},
    "shelve": None,
    "unshelve": None,
    "confirmResize": None,
    "revertResize": None,
    "restore": None,
    "lock": None,
    "unlock": None,
}
"""Actions of the form, each with its value."""

ADMIN_ACTIONS: dict[str, Any] = {"migrate": None}


def list_all(visit: Visit) -> Page:
    """List the servers of the reader; an admin's list has those of all projects."""
    asked = {name: visit.query[name] for name in FILTERS if visit.query.get(name)}
    found = visit.read(
        "/servers/detail",
        limit=PAGE,
        marker=visit.query.get("marker", ""),
        **visit.everybody(),
        **asked,
    )
    return Page(
        "servers.html",
        {
            "servers": found["servers"],
            "marker": next_marker(found, "servers"),
            "asked": asked,
            "shown_statuses": SHOWN_STATUSES,
        },
    )


def show(visit: Visit) -> Page:
    """Show one server, its faults, and the history of its actions."""
    id = visit.args["id"]
    return Page(
        "server.html",
        {
            "server": visit.read(f"/servers/{id}")["server"],
            "without_place": WITHOUT_PLACE,
            "actions": visit.read(f"/servers/{id}/os-instance-actions")["instanceActions"],
            "choices": [*ACTIONS, *(ADMIN_ACTIONS if visit.is_admin else ())],
        },
    )


def act(visit: Visit) -> Redirect:
    """Take an action on a server, or delete it."""
    id, asked = visit.args["id"], visit.form.get("do")
    if asked == "delete":
        visit.write("DELETE", f"/servers/{id}")
        return Redirect("/dashboard/servers")
    if asked == "forceDelete":
        visit.write("POST", f"/servers/{id}/action", {"forceDelete": None})
        return Redirect("/dashboard/servers")
    actions = ACTIONS | ADMIN_ACTIONS
    if asked not in actions:
        raise BadRequest("do: there is no such action.", field="do")
    visit.write("POST", f"/servers/{id}/action", {asked: actions[asked]})
    return Redirect(f"/dashboard/servers/{id}")
