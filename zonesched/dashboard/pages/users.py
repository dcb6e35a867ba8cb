"""Users of this zone: the list, and an admin's forms; a generated secret is shown once."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.dashboard.visit import Page, Redirect, Result, Visit
from zonesched.errors import BadRequest

ROLES = ("member", "reader", "admin", "compute", "parent", "monitor")
"""Roles as the form offers them: the first one is chosen until the admin chooses another."""


def list_all(visit: Visit) -> Page:
    """List all users."""
    return _page(visit, {})


def change(visit: Visit) -> Result:
    """Add or remove a user, or give one another secret."""
    form = visit.form
    name = form.get("name")
    match form.get("do"):
        case "add":
            user = {"name": name, "role": form.get("role")}
            given = {"project_id": form.get("project"), "password": form.exact("password")}
            user |= {key: value for key, value in given.items() if value}
            made = visit.write("POST", "/users", {"user": user})["user"]
            if made.get("secret"):
                return _page(visit, made)
        case "new_secret":
            return _page(visit, visit.write("PUT", f"/users/{name}", {"user": {"new_secret": True}})["user"])
        case "remove":
            visit.write("DELETE", f"/users/{name}")
        case _:
            raise BadRequest("do: there is no such action.", field="do")
    return Redirect("/dashboard/users")


def _page(visit: Visit, shown_once: Mapping[str, str]) -> Page:
    values = {"users": visit.read("/users")["users"], "roles": ROLES, "shown_once": shown_once}
    return Page("users.html", values)
