"""Flavors: the list, and an admin's form for a new one."""

from __future__ import annotations

from zonesched.dashboard.visit import Page, Redirect, Visit
from zonesched.errors import BadRequest

SIZES = ("vcpus", "ram", "disk")


def list_all(visit: Visit) -> Page:
    """List the flavors that the reader may use."""
    return Page("flavors.html", {"flavors": visit.read("/flavors/detail")["flavors"]})


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
