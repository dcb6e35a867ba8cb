"""Flavors: the list, and an admin's form for a new one."""

from __future__ import annotations

from zonesched.dashboard.visit import Page, Redirect, Visit
from zonesched.errors import BadRequest
from zonesched.model.page_link import next_marker

PAGE = "200"
SIZES = ("vcpus", "ram", "disk")


def list_all(visit: Visit) -> Page:
    """List the flavors that the reader may use; an admin's list has those that are not public, too."""
    found = visit.read("/flavors/detail", is_public="none", limit=PAGE, marker=visit.query.get("marker", ""))
    values = {"flavors": found["flavors"], "marker": next_marker(found, "flavors")}
    return Page("flavors.html", values)


def change(visit: Visit) -> Redirect:
    """Add a flavor, or remove one."""
    form = visit.form
    match form.get("do"):
        case "add":
            sizes = {name: _number(form.get(name) or "0", name) for name in SIZES}
            visit.write("POST", "/flavors", {"flavor": {"name": form.get("name"), **sizes}})
        case "remove":
            visit.write("DELETE", f"/flavors/{form.get('id')}")
        case _:
            raise BadRequest("do: there is no such action.", field="do")
    return Redirect("/dashboard/flavors")


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise BadRequest(f"{name}: must be a whole number.", field=name)
    return int(text)
