"""The audit of this zone's rows and of each edge to a child, its repair, and its report to a parent."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.model.inconsistency import Inconsistency, Left, Repaired, RepairResult, ReportedAudit
from zonesched.services.audit import audit, audit_edges, audit_tree
from zonesched.services.audit import repair as repairing
from zonesched.services.children import children


def run(call: Call) -> Answer:
    """Compare claims, instances and reservations here, with each child and, with `tree`, in child zones."""
    zone, query = call.zone, call.query
    if query.child:
        children.show(zone.store, zone.children, query.child)
        found = audit_edges.across_edge(zone, query.child, call.is_wanted)
    else:
        edges = audit_edges.across_edges(zone, is_wanted=call.is_wanted) if query.children else []
        found = [*audit.run(zone), *edges]
    answer: dict[str, Any] = {"inconsistencies": [_inconsistency_json(one) for one in found]}
    if query.tree and query.children:
        answer["children"] = [
            {"id": child.child_id, "name": child.name, **_report_json(child.reported)}
            for child in audit_tree.for_operator(zone, call.is_wanted, query.child)
        ]
    return ok(answer)


def report(call: Call) -> Answer:
    """Report to a parent the inconsistencies of its instances, here and in child zones."""
    found = audit_tree.for_parent(call.zone, call.caller, call.query.budget_s, call.is_wanted)
    return ok({"version": 1, **_report_json(found)})


def repair(call: Call) -> Answer:
    """Repair what the audit finds, here and with each child; with `dry_run`, only list the repairs."""
    asked = call.body.repair
    done = repairing.run(call.zone, dry_run=asked.dry_run, delete_unknown=asked.delete_unknown)
    return ok({"inconsistencies": [_result_json(one) for one in done]})


def _inconsistency_json(found: Inconsistency) -> dict[str, Any]:
    return {"kind": found.kind, "subject": str(found.subject), "detail": found.detail}


def _result_json(one: RepairResult) -> dict[str, Any]:
    match one:
        case Repaired(inconsistency, action):
            return {**_inconsistency_json(inconsistency), "repaired": True, "action": action}
        case Left(inconsistency, why):
            return {**_inconsistency_json(inconsistency), "repaired": False, "action": why}


def _report_json(reported: ReportedAudit) -> dict[str, Any]:
    lines = [{"kind": found.kind, "id": found.id} for found in reported.inconsistencies]
    return {"inconsistencies": lines, "complete": reported.complete}
