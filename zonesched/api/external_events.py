"""Events that other services of OpenStack send about servers."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer
from zonesched.api.call import Call
from zonesched.errors import NotFound
from zonesched.services.owners import server_details

SOME_FAILED = 207


def take(call: Call) -> Answer:
    """Take events about networks: a zone keeps nothing of a server's networks that it would read again."""
    events = [_taken(call, event.name, event.server_uuid, event.tag) for event in call.body.events]
    has_failed = any(event["status"] == "failed" for event in events)
    return Answer(SOME_FAILED if has_failed else 200, {"events": events})


def _taken(call: Call, name: str, uuid: str, tag: str) -> dict[str, Any]:
    try:
        server_details.read(call.zone, call.caller, uuid)
    except NotFound:
        code, status = 404, "failed"
    else:
        code, status = 200, "completed"
    named = {"tag": tag} if tag else {}
    return {"name": name, "server_uuid": uuid, **named, "code": code, "status": status}
