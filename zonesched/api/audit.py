"""The audit of this zone's rows and of each edge to a child, its repair, and its report to a parent."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.model.inconsistency import Inconsistency, Left, Mended, Repaired, Told
from zonesched.services.audit import audit, audit_edges, audit_tree
from zonesched.services.audit import repair as repairing


def run(call: Call) -> Answer:
    """Compare claims, instances and reservations here, with each child and, with `tree`, in child zones."""
    found = [*audit.run(call.zone), *audit_edges.across_edges(call.zone)]
    answer: dict[str, Any] = {"differences": [_difference_json(difference) for difference in found]}
    if call.query.tree:
        answer["children"] = [
            {"id": child.child_id, "name": child.name, **_report_json(child.told)}
            for child in audit_tree.ask_children(call.zone, audit_tree.BUDGET_S)
        ]
    return ok(answer)


def report(call: Call) -> Answer:
    """Report to a parent the inconsistencies of its instances, here and in child zones."""
    found = audit_tree.for_parent(call.zone, call.caller, call.query.budget_s)
    return ok({"version": 1, **_report_json(found)})


def repair(call: Call) -> Answer:
    """Repair what the audit finds, here and with each child; with `dry_run`, only list the repairs."""
    done = repairing.run(call.zone, dry_run=call.body.repair.dry_run)
    return ok({"differences": [_repaired_json(one) for one in done]})


def _difference_json(found: Inconsistency) -> dict[str, Any]:
    return {"kind": found.kind, "subject": str(found.subject), "detail": found.detail}


def _repaired_json(one: Repaired) -> dict[str, Any]:
    match one:
        case Mended(difference, action):
            return {**_difference_json(difference), "mended": True, "action": action}
        case Left(difference, why):
            return {**_difference_json(difference), "mended": False, "action": why}


def _report_json(told: Told) -> dict[str, Any]:
    lines = [{"kind": found.kind, "id": found.id} for found in told.differences]
    return {"differences": lines, "complete": told.complete}
