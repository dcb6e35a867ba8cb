"""The audit of a whole tree: each zone reports to its parent the inconsistencies of that parent's rows.

A report has kinds, and ids that the parent gave itself: of an instance, a boot, a group. Inconsistencies of a
zone's hosts, of others' instances or of its edges are left out; the zone's own operator asks for those.

    root's operator --GET /audit?tree--> root --GET /audit--> region --GET /audit--> leaf
                                              <- his of region    <- region's of leaf
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from zonesched.errors import CallerGone
from zonesched.model.caller import Caller
from zonesched.model.inconsistency import Inconsistency, ReportedAudit, ReportedByChild, ReportedInconsistency
from zonesched.model.work_deadline import always
from zonesched.seams import Done
from zonesched.services.audit import audit, audit_edges
from zonesched.services.zone import Zone
from zonesched.store import aliases, inbound
from zonesched.store.child_placements import count_in_children
from zonesched.store.store import Store
from zonesched.zones.answers import MAX_CHANGES
from zonesched.zones.child import Child
from zonesched.zones.client import MIN_AUDIT_S, ChildClient
from zonesched.zones.zone_manager import ZoneManager

SHARE_BELOW = 0.8
"""Share of its time that a zone passes on, so that it has some left to answer."""


NOT_COMPARED = "child_not_compared"
"""Reason for an unreachable child zone: a parent learns that the answer is incomplete, and no more."""

MIN_LINES = 100
"""Lines that are kept of each child's report, however many children there are."""


def for_parent(
    zone: Zone, caller: Caller, budget_s: float, is_wanted: Callable[[], bool] = always
) -> ReportedAudit:
    """Find inconsistencies of this parent's rows, here and in child zones.

    No zone is asked after `budget_s`. Raises CallerGone once `is_wanted` is false.
    """
    ends_at = zone.clock.monotonic() + budget_s
    edges = audit_edges.across_edges(zone, budget_s * SHARE_BELOW / 2, is_wanted)
    left_s = (ends_at - zone.clock.monotonic()) * SHARE_BELOW
    children = ask_children(
        zone.children, left_s, is_wanted, lambda lines: _of_caller(zone.store, caller, lines)
    )
    found = [_reported(d) for d in (*audit.run(zone), *edges) if d.caller_id == caller.user_id]
    found += [line for child in children for line in child.reported.inconsistencies]
    compared = all(d.kind != NOT_COMPARED for d in edges)
    complete = compared and all(child.reported.complete for child in children)
    own = zone.store.read(lambda tx: aliases.callers_uuids(tx, caller.user_id, {line.id for line in found}))
    found = [replace(line, id=own.get(line.id, line.id)) for line in found]
    reported = sorted(set(found), key=lambda line: (line.kind, line.id))
    return ReportedAudit(tuple(reported[:MAX_CHANGES]), complete and len(reported) <= MAX_CHANGES)


def for_operator(
    zone: Zone, is_wanted: Callable[[], bool] = always, child_id: str = ""
) -> list[ReportedByChild]:
    """Ask the child of this id for a report, with "" each child.

    The time limit grows with the placements in child zones.
    """
    limit_s = audit_edges.time_limit_s(zone.store.read(count_in_children))
    return ask_children(zone.children, limit_s, is_wanted, is_asked=lambda child: child_id in ("", child.id))


Lines = Sequence[ReportedInconsistency]


def ask_children(
    manager: ZoneManager,
    budget_s: float,
    is_wanted: Callable[[], bool] = always,
    select: Callable[[Lines], Lines] = lambda lines: lines,
    is_asked: Callable[[Child], bool] = lambda child: True,
) -> list[ReportedByChild]:
    """Ask the children that `is_asked` selects about this zone's rows there, in the order of their addition.

    Of each report only the lines that `select` returns are kept, and of these an equal share of the limit.
    """
    children = [known.child for known in manager.snapshot() if is_asked(known.child)]
    unreachable = ReportedAudit((), complete=False)
    if budget_s < MIN_AUDIT_S:
        return [ReportedByChild(child.id, child.name, unreachable) for child in children]
    most = max(MIN_LINES, MAX_CHANGES // max(1, len(children)))

    def report(client: ChildClient) -> ReportedAudit:
        # Within the call: else the whole reports of all children would be in memory at once.
        found = client.audit(budget_s)
        lines = select(found.inconsistencies)
        return ReportedAudit(tuple(lines[:most]), found.complete and len(lines) <= most)

    outcomes = manager.ask(children, report, budget_s, is_wanted)
    if not is_wanted():
        raise CallerGone
    return [
        ReportedByChild(child.id, child.name, outcome.value if isinstance(outcome, Done) else unreachable)
        for child, outcome in zip(children, outcomes, strict=True)
    ]


def _reported(found: Inconsistency) -> ReportedInconsistency:
    return ReportedInconsistency(found.kind, found.parents_id)


def _of_caller(store: Store, caller: Caller, lines: Lines) -> Lines:
    """Select the inconsistencies about an instance, a boot or a group that this parent sent here."""
    if not lines:
        return []
    ids = sorted({line.id for line in lines})
    known = store.read(lambda tx: inbound.ids_of_caller(tx, caller.user_id, ids))
    return [line for line in lines if line.id in known]
