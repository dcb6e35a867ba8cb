"""The first page: this zone, and its children as seen from here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zonesched.dashboard.layout import children
from zonesched.dashboard.pages.heat import sums
from zonesched.dashboard.visit import Page, Redirect, Result, Visit

RECENT = 200
"""Number of the newest servers whose places are counted."""

ANSWERED = "answered"


@dataclass
class Edge:
    """Calls to one child since this process started. `age_s`: of its ranges, "" where it reported none."""

    ended: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    timed: int = 0
    age_s: float | str = ""

    @property
    def answered(self) -> int:
        return self.ended[ANSWERED]

    @property
    def failed(self) -> list[tuple[str, int]]:
        """Calls that failed, by code, most first."""
        return [(code, count) for code, count in self.ended.most_common() if code != ANSWERED]

    @property
    def mean_ms(self) -> float | str:
        return 1000 * self.seconds / self.timed if self.timed else ""


def first(visit: Visit) -> Redirect:
    """Lead to the page that its reader may see first."""
    return Redirect("/dashboard/tree" if visit.is_admin else "/dashboard/boots")


def show(visit: Visit) -> Result:
    """Show the zone, its children, and where the newest servers are."""
    info = visit.read("/zones/info")["zone"] if visit.zone.conf.allow_admin_api else {}
    found = children(visit)
    own = sums(visit)
    shares = _shares(visit, [child["name"] for child in found])
    return Page(
        "tree.html",
        {
            "info": info,
            "children": found,
            "edges": edges(visit),
            "hours": {child["name"]: visit.zone.children.offers.last_hour(child["id"]) for child in found},
            "own": own,
            "shares": shares,
            "placed": sum(shares.values()),
            "boots": visit.read("/reservations", limit="8", **visit.everybody())["reservations"],
        },
    )


def edges(visit: Visit) -> Mapping[str, Edge]:
    """Read the metrics of the calls to each child, by its name; for who may list the children."""
    if not children(visit):
        return {}
    found: defaultdict[str, Edge] = defaultdict(Edge)
    for family in visit.zone.children.edges.collect():
        for sample in family.samples:
            edge, name = found[sample.labels["child"]], sample.name
            if name == "zonesched_child_calls_total" and sample.labels["call"] != "poll":
                edge.ended[sample.labels["outcome"]] += int(sample.value)
            elif name == "zonesched_child_call_seconds_sum":
                edge.seconds += sample.value
            elif name == "zonesched_child_call_seconds_count":
                edge.timed += int(sample.value)
            elif name == "zonesched_child_ranges_age_seconds":
                edge.age_s = sample.value
    return defaultdict(Edge, found)


def _shares(visit: Visit, names: Sequence[str]) -> Mapping[str, int]:
    """Count the newest servers by the child zone that has them, "" for this zone's own hosts."""
    found = visit.read("/servers/detail", limit=str(RECENT), **visit.everybody())["servers"]
    counted = Counter(str(server.get("child_zone", "")) for server in found if _is_placed(server))
    return {name: counted[name] for name in ("", *names)}


def _is_placed(server: Mapping[str, Any]) -> bool:
    return bool("child_zone" in server or server.get("OS-EXT-SRV-ATTR:host"))
