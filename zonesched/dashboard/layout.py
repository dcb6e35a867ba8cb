"""The frame of every page: the zone, the reader, the menu, and child zones that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zonesched.dashboard.unsent import UNSENT
from zonesched.dashboard.visit import Visit

MENU: Sequence[tuple[str, str, bool]] = (
    ("Tree", "/dashboard/tree", True),
    ("Hosts", "/dashboard/hosts", True),
    ("Boots", "/dashboard/boots", False),
    ("Servers", "/dashboard/servers", False),
    ("Flavors", "/dashboard/flavors", False),
    ("Limits", "/dashboard/limits", False),
    ("Aggregates", "/dashboard/aggregates", True),
    ("Users", "/dashboard/users", True),
    ("Audit", "/dashboard/audit", True),
)
"""Title and path of each part, and whether it is for admins alone."""

MOST_ALARMS = 3
"""Number of offline child zones up to which each has an alarm of its own: more would hide the page."""


def surroundings(visit: Visit) -> Mapping[str, Any]:
    """Return the values that the frame of every page needs."""
    return {
        "zone_name": visit.zone.conf.zone_name,
        "me": visit.caller,
        "is_admin": visit.is_admin,
        "may_write": visit.may_write,
        "form_token": visit.form_token,
        "query": visit.query,
        "unsent": visit.query.get(UNSENT, ""),
        "menu": [(title, path) for title, path, for_admins in MENU if visit.is_admin or not for_admins],
        "missing_children": missing_children(visit),
        "most_alarms": MOST_ALARMS,
        "is_restored": visit.zone.restored.is_under_way,
        "unheard": unheard(visit),
        "now": visit.zone.clock.now(),
    }


def missing_children(visit: Visit) -> list[Mapping[str, Any]]:
    """Return the child zones that are offline, for an admin."""
    return [child for child in children(visit) if child["state"] == "offline"]


def unheard(visit: Visit) -> list[str]:
    """Name the neighbours for which a restored zone waits, for an admin."""
    if not visit.is_admin or not visit.zone.restored.is_under_way:
        return []
    return [f"{one.kind.value} {one.name}" for one in visit.zone.restored.unheard()]


def children(visit: Visit) -> Sequence[Mapping[str, Any]]:
    """Return the child zones, for an admin of a zone that serves /zones."""
    if not visit.is_admin or not visit.zone.conf.allow_admin_api:
        return []
    found: Sequence[Mapping[str, Any]] = visit.read("/zones/detail")["zones"]
    return found
