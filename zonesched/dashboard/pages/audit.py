"""The audit of this zone, run when its reader asks for it: its own rows at once, then child by child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zonesched.dashboard.layout import children
from zonesched.dashboard.visit import Page, Visit
from zonesched.errors import NotFound

LANES = 4
"""How many child zones a page asks at a time: each keeps a thread of this zone."""


def show(visit: Visit) -> Page:
    """Show the page; with `run`, what the audit finds, with `tree` also in child zones.

    With `child` it has what the comparison with that child finds. The page of a whole audit asks for these
    `LANES` at a time, and a child zone that hangs delays those alone that are asked in its lane.
    """
    tree = "true" if visit.query.get("tree") else ""
    if "run" not in visit.query:
        # Who may not run the audit is refused its page as well.
        visit.read("/os-services", host="none")
        return _page([], {}, own=None)
    if child_id := visit.query.get("child", ""):
        asked = [child for child in children(visit) if child["id"] == child_id]
        if not asked:
            raise NotFound("There is no such child zone.", code="zone_not_found", field="child")
        return _page(asked, {child_id: visit.read("/audit", child=child_id, tree=tree)}, own=None)
    own = visit.read("/audit", children="false")["inconsistencies"]
    # Those that do not answer their polls are likely to take long.
    in_turn = sorted(children(visit), key=lambda child: bool(child["state"] != "ready"))
    return _page(in_turn, {}, own=own)


def _page(
    asked: Sequence[Mapping[str, Any]],
    compared: Mapping[str, Mapping[str, Any]],
    *,
    own: Sequence[Mapping[str, Any]] | None,
) -> Page:
    return Page("audit.html", {"own": own, "asked": asked, "compared": compared, "lanes": LANES})
