"""Boots by their reservation: their status, and a parent's confirm and cancel."""

from __future__ import annotations

import math
import re
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.builds import answers_json
from zonesched.api.call import Call
from zonesched.api.server_json import observed_json
from zonesched.errors import BadRequest, Forbidden
from zonesched.model.boot_line import BootLine
from zonesched.model.caller import Role
from zonesched.model.decision_trace import HostJudgement, score_to_wire, trace_to_wire
from zonesched.model.openstack_time import iso_time
from zonesched.model.pending_step import NextStep, PendingStep
from zonesched.model.placement import InstanceChange
from zonesched.services.owners import reservations
from zonesched.services.parent import confirm as second_step
from zonesched.services.recovery import naming
from zonesched.zones.client import BUDGET_HEADER

TIME_BUDGET = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?")


def show(call: Call) -> Answer:
    """Show a boot: its state, its instances by status, and the reasons of those in ERROR."""
    found = reservations.show(call.zone, call.caller, call.args["id"], call.query.caller)
    body = {
        "id": found.id,
        "state": found.state,
        "num_instances": found.num_instances,
        "min_count": found.min_count,
        "counts": dict(found.counts),
        "reasons": [dict(reason) for reason in found.reasons],
        "waiting_for": [_waiting_json(line) for line in found.waiting_for],
        "instances": [{"uuid": uuid, "status": status} for uuid, status in found.instances],
        "created": iso_time(found.created_at),
    }
    if call.caller.role is Role.ADMIN:
        body["why"] = trace_to_wire(found.why)
    return ok({"reservation": body})


def _waiting_json(line: PendingStep) -> dict[str, Any]:
    at = {"at": iso_time(line.due_at)} if line.step is NextStep.NEXT_SELECT else {}
    where = {"child_zone": line.child_name} if line.child_name else {}
    return {"code": line.step.value, "count": line.count, **at, **where}


def list_boots(call: Call) -> Answer:
    """The caller's boots, newest first, with how many instances each has in which status."""
    if call.query.all_tenants and call.caller.role is not Role.ADMIN:
        raise Forbidden("all_tenants: only an admin lists other projects.", field="all_tenants")
    found, marker = reservations.list_boots(
        call.zone, call.caller, call.query.marker, call.query.limit, all_tenants=call.query.all_tenants
    )
    links = {"reservations_links": call.links.next_page(marker)} if marker else {}
    return ok({"reservations": [_line_json(line) for line in found], **links})


def _line_json(line: BootLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "name": line.name,
        "state": line.state,
        "num_instances": line.num_instances,
        "min_count": line.min_count,
        "counts": dict(line.counts),
        "flavor": line.flavor.name,
        "project_id": line.project_id,
        "created": iso_time(line.created_at),
    }


def why_host(call: Call) -> Answer:
    """Show the verdict of each filter and weigher on a local host, as it is now, for a boot."""
    found = reservations.why_host(call.zone, call.caller, call.args["id"], call.query.host, call.query.caller)
    return ok({"host": _judgement_json(found)})


def confirm(call: Call) -> Answer:
    """Build held instances of a parent."""
    attempts, budget_s = call.body.to_attempts(), _budget_s(call)
    answers = second_step.confirm(call.zone, call.caller, call.args["id"], attempts, budget_s)
    return ok(answers_json(answers))


def cancel(call: Call) -> Answer:
    """Release held instances of a parent that are not confirmed."""
    attempts, budget_s = call.body.to_attempts(), _budget_s(call)
    answers = second_step.cancel(call.zone, call.caller, call.args["id"], attempts, budget_s)
    return ok(answers_json(answers))


def _budget_s(call: Call) -> float:
    """Return the seconds that the parent waits. Raises BadRequest for a malformed number."""
    text = call.headers.get(BUDGET_HEADER)
    if text is None:
        return math.inf
    if not TIME_BUDGET.fullmatch(text):
        raise BadRequest(f"{BUDGET_HEADER}: a number of seconds.", field=BUDGET_HEADER)
    return float(text)


def name(call: Call) -> Answer:
    """Take the instances that a parent names as its own, once all agents and child zones were heard."""
    boots = [item.to_boot() for item in call.body.boots]
    return ok({"taken": naming.take(call.zone, call.caller, boots, is_last=call.body.last)})


def changes(call: Call) -> Answer:
    """List the changes of a parent's instances since the cursor."""
    items, cursor, more = reservations.changes(call.zone, call.caller, call.query.cursor)
    return ok({"instances": [_change_json(item) for item in items], "cursor": cursor, "more": more})


def _change_json(item: InstanceChange) -> dict[str, Any]:
    return {
        "uuid": item.uuid,
        "attempt": item.attempt,
        "status": item.status.value,
        "state": item.state.value,
        "reason": item.reason,
        **observed_json(item),
    }


def _judgement_json(found: HostJudgement) -> dict[str, Any]:
    weighed = [score_to_wire(score) for score in found.score]
    return {
        "id": found.host_id,
        "host": found.host_name,
        "passes": found.passes,
        "filters": [{"filter": a.filter, "code": a.code, "passes": a.passes} for a in found.answers],
        "weight": weighed[0]["weight"] if weighed else None,
        "scores": weighed[0]["scores"] if weighed else [],
    }
