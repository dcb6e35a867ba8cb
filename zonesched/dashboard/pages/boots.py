"""Boots: the live list, and one boot as a picture of where it went and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zonesched.dashboard.pages.servers import WITHOUT_PLACE
from zonesched.dashboard.visit import Page, Visit
from zonesched.errors import ZoneschedError
from zonesched.model.page_link import next_marker

PAGE = "50"
MOST_SERVERS = 1000
"""Number of a boot's servers whose places and times are counted at most."""

STATUSES = ("ACTIVE", "BUILD", "UNKNOWN", "ERROR", "DELETED")
"""In the order in which bars show them."""


@dataclass(frozen=True)
class Step:
    """A filter of a zone's funnel, with its share of the hosts that the funnel began with; None: not told."""

    filter: str
    code: str
    before: int | None
    after: int | None
    percent_before: float
    percent_after: float

    @property
    def is_idle(self) -> bool:
        """Tell whether the filter is known to have removed no host."""
        return self.before is not None and self.before == self.after


@dataclass(frozen=True)
class Point:
    """`active` instances, `seconds` after the boot was accepted; `x` and `y` are 0 to 100."""

    seconds: float
    active: int
    x: float
    y: float


def list_all(visit: Visit) -> Page:
    """List the boots of the reader, newest first; an admin's list has those of all projects."""
    found = visit.read("/reservations", limit=PAGE, marker=visit.query.get("marker", ""), **visit.everybody())
    marker = next_marker(found, "reservations")
    return Page("boots.html", {"boots": found["reservations"], "marker": marker, "statuses": STATUSES})


def show(visit: Visit) -> Page:
    """Show one boot; an admin also asks here why a host was not chosen."""
    id = visit.args["id"]
    boot = visit.read(f"/reservations/{id}")["reservation"]
    found = visit.read("/servers/detail", reservation_id=id, limit=str(MOST_SERVERS), **visit.everybody())
    servers = found["servers"]
    counted = len(servers) if "servers_links" in found else boot["num_instances"]
    why = boot.get("why")
    return Page(
        "boot.html",
        {
            "boot": boot,
            "statuses": STATUSES,
            "places": _places(visit, servers),
            "counted": counted,
            "why": why,
            "funnel": _funnel(why["own"]["steps"]) if why else [],
            "points": _points(boot["created"], servers, counted),
            "attempts": _attempts(servers),
            "asked_host": visit.query.get("host", ""),
            **_one_host(visit, id),
        },
    )


def _places(visit: Visit, servers: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Count the servers by child zone, or by host of this zone for an admin, most first.

    Others are told hosts by their hostId, and not which child zone has a server.
    """
    names = []
    for server in servers:
        if server["status"] == "DELETED":
            continue
        host = server.get("OS-EXT-SRV-ATTR:host")
        if child := server.get("child_zone"):
            names.append(f"zone {child}")
        elif host:
            names.append(f"host {host}")
        elif server["hostId"] and not visit.is_admin:
            names.append(f"host {server['hostId'][:8]}")
        elif server["status"] not in WITHOUT_PLACE and not visit.is_admin:
            names.append("other zones")
    return Counter(names).most_common(30)


def _funnel(steps: Sequence[Mapping[str, Any]]) -> list[Step]:
    most = max((step.get("before") or 0 for step in steps), default=0) or 1
    return [
        Step(
            filter=step["filter"],
            code=step["code"],
            before=step.get("before"),
            after=step.get("after"),
            percent_before=100 * (step.get("before") or 0) / most,
            percent_after=100 * (step.get("after") or 0) / most,
        )
        for step in steps
    ]


def _points(created: str, servers: Sequence[Mapping[str, Any]], wanted: int) -> list[Point]:
    """Return when how many were ACTIVE; the zone's times are whole seconds."""
    began = _epoch_s(created)
    launched = sorted(
        max(0.0, _epoch_s(server["OS-SRV-USG:launched_at"]) - began)
        for server in servers
        if server["OS-SRV-USG:launched_at"]
    )
    counted = sorted(Counter(launched).items())
    longest = max([1.0, *launched])
    points, active = [Point(0.0, 0, 0.0, 100.0)], 0
    for seconds, count in counted:
        active += count
        points.append(Point(seconds, active, 100 * seconds / longest, 100 - 100 * active / max(1, wanted)))
    return points


def _epoch_s(iso: str) -> float:
    return datetime.fromisoformat(iso.removesuffix("Z") + "+00:00").timestamp()


def _attempts(servers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, int]]:
    """Count the failed attempts by (place, reason), most first."""
    counted = Counter(
        (str(one.get("zone") or one.get("host") or ""), str(one["reason"]))
        for server in servers
        for one in server.get("fault", {}).get("attempts", ())
    )
    return [(place, reason, count) for (place, reason), count in counted.most_common(20)]


def _one_host(visit: Visit, id: str) -> Mapping[str, Any]:
    """Return the judgement of the host that is asked about, or why there is none."""
    host = visit.query.get("host", "")
    if not host or not visit.is_admin:
        return {"judgement": None, "judgement_fault": ""}
    try:
        return {
            "judgement": visit.read(f"/reservations/{id}/why", host=host)["host"],
            "judgement_fault": "",
        }
    except ZoneschedError as fault:
        return {"judgement": None, "judgement_fault": fault.message}
