"""Quotas and their usage: the reader's own, and for an admin those of one project or parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zonesched.dashboard.visit import Page, Visit


def show(visit: Visit) -> Page:
    """Show the limits of the reader's project, or of whom an admin asks about."""
    project, parent = visit.query.get("project", ""), visit.query.get("parent", "")
    if project:
        found, title = visit.read(f"/limits/projects/{project}")["limits"], f"project {project}"
    elif parent:
        found, title = visit.read(f"/limits/parents/{parent}")["limits"], f"parent {parent}"
    else:
        found, title = visit.read("/limits")["limits"], f"project {visit.caller.project_id}"
    overrides = visit.read("/limits/overrides") if visit.is_admin else {"projects": {}, "parents": {}}
    return Page(
        "limits.html",
        {
            "title": title,
            "rows": _rows(found["absolute"]),
            "rates": found["rate"],
            "overridden": found.get("overrides", {}),
            "overrides": overrides,
        },
    )


def _rows(absolute: Mapping[str, int]) -> list[tuple[str, int, Any]]:
    """Return (name, limit, use) of the zone's own quotas; a use of "" is not counted."""
    return [
        (name, value, absolute.get(f"{name}_used", ""))
        for name, value in absolute.items()
        if not name.endswith("_used") and not name.startswith(("max", "total"))
    ]
