"""Boots by their reservation: how they stand, and a parent's second step."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.builds import answers_json
from zonesched.api.call import Call
from zonesched.api.links import iso_time
from zonesched.model.placement import InstanceChange
from zonesched.services import reservations, settle


def show(call: Call) -> Answer:
    """How a boot stands: its state, how many instances are where, and why some are not built."""
    found = reservations.show(call.zone, call.caller, call.args["id"])
    body = {
        "id": found.id,
        "state": found.state,
        "num_instances": found.num_instances,
        "min_count": found.min_count,
        "counts": dict(found.counts),
        "reasons": [dict(reason) for reason in found.reasons],
        "instances": [{"uuid": uuid, "status": status} for uuid, status in found.instances],
        "created": iso_time(found.created_at),
    }
    return ok({"reservation": body})


def confirm(call: Call) -> Answer:
    """A parent's: build what is held."""
    answers = settle.confirm(call.zone, call.caller, call.args["id"], call.body.to_attempts())
    return ok(answers_json(answers))


def cancel(call: Call) -> Answer:
    """A parent's: let go of what is held and not confirmed."""
    answers = settle.cancel(call.zone, call.caller, call.args["id"], call.body.to_attempts())
    return ok(answers_json(answers))


def changes(call: Call) -> Answer:
    """A parent's: what has changed in all its reservations since the cursor."""
    items, cursor, more = reservations.changes(call.zone, call.caller, call.query.cursor)
    return ok({"instances": [_change_json(item) for item in items], "cursor": cursor, "more": more})


def _change_json(item: InstanceChange) -> dict[str, Any]:
    return {"uuid": item.uuid, "attempt": item.attempt, "status": item.status.value, "reason": item.reason}
