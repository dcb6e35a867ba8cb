"""The audit of a whole tree: each zone reports to its parent the inconsistencies of that parent's rows.

A report has kinds, and ids that the parent gave itself: of an instance, a boot, a group. Inconsistencies of a
zone's hosts, of others' instances or of its edges are left out; the zone's own operator asks for those.

    root's operator --GET /audit?tree--> root --GET /audit--> region --GET /audit--> leaf
                                              <- his of region    <- region's of leaf
"""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.model.caller import Caller
from zonesched.model.inconsistency import Inconsistency, ReportedAudit, ReportedByChild, ReportedInconsistency
from zonesched.seams import Done
from zonesched.services.audit import audit, audit_edges
from zonesched.services.zone import Zone
from zonesched.store import instances
from zonesched.zones.answers import MAX_CHANGES
from zonesched.zones.client import MIN_AUDIT_S

BUDGET_S = 60.0
"""Time limit in seconds of a tree's audit in the child zones."""

SHARE_BELOW = 0.8
"""Share of its time that a zone passes on, so that it has some left to answer."""

NOT_COMPARED = "child_not_compared"
"""Reason for an unreachable child zone: a parent learns that the answer is incomplete, and no more."""


def for_parent(zone: Zone, caller: Caller, budget_s: float) -> ReportedAudit:
    """Find inconsistencies of this parent's rows, here and in child zones.

    No zone is asked after `budget_s`.
    """
    ends_at = zone.clock.monotonic() + budget_s
    edges = audit_edges.across_edges(zone, budget_s * SHARE_BELOW / 2)
    children = ask_children(zone, (ends_at - zone.clock.monotonic()) * SHARE_BELOW)
    found = [_reported(d) for d in (*audit.run(zone), *edges) if d.caller_id == caller.user_id]
    found += _of_caller(zone, caller, [line for child in children for line in child.reported.inconsistencies])
    compared = all(d.kind != NOT_COMPARED for d in edges)
    complete = compared and all(child.reported.complete for child in children)
    reported = sorted(set(found), key=lambda line: (line.kind, line.id))
    return ReportedAudit(tuple(reported[:MAX_CHANGES]), complete and len(reported) <= MAX_CHANGES)


def ask_children(zone: Zone, budget_s: float) -> list[ReportedByChild]:
    """Ask each child about this zone's rows there, in the order in which they were added."""
    children = [known.child for known in zone.children.snapshot()]
    unreachable = ReportedAudit((), complete=False)
    if budget_s < MIN_AUDIT_S:
        return [ReportedByChild(child.id, child.name, unreachable) for child in children]
    outcomes = zone.children.ask(children, lambda client: client.audit(budget_s), budget_s)
    return [
        ReportedByChild(child.id, child.name, outcome.value if isinstance(outcome, Done) else unreachable)
        for child, outcome in zip(children, outcomes, strict=True)
    ]


def _reported(found: Inconsistency) -> ReportedInconsistency:
    return ReportedInconsistency(found.kind, found.parents_id)


def _of_caller(
    zone: Zone, caller: Caller, lines: Sequence[ReportedInconsistency]
) -> list[ReportedInconsistency]:
    """Select the inconsistencies about an instance, a boot or a group that this parent sent here."""
    if not lines:
        return []
    ids = sorted({line.id for line in lines})
    known = zone.store.read(lambda tx: instances.ids_of_caller(tx, caller.user_id, ids))
    return [line for line in lines if line.id in known]
