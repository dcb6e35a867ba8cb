"""The audit of this zone, run when its reader asks for it."""

from __future__ import annotations

from zonesched.dashboard.visit import Page, Visit


def show(visit: Visit) -> Page:
    """Show the page; with `run`, what the audit finds, with `tree` also in child zones."""
    has_run = "run" in visit.query
    tree = "true" if visit.query.get("tree") else ""
    found = visit.read("/audit", tree=tree) if has_run else {"inconsistencies": []}
    if not has_run:
        # Who may not run the audit is refused its page as well.
        visit.read("/os-services", host="none")
    return Page(
        "audit.html",
        {"has_run": has_run, "found": found["inconsistencies"], "audited": found.get("children", [])},
    )
