"""Migrations of servers, in OpenStack's shapes: a zone moves none, so the lists are empty."""

from __future__ import annotations

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import NotFound
from zonesched.services.owners import server_details


def list_all(call: Call) -> Answer:
    """List the migrations of all servers: none."""
    return ok({"migrations": []})


def list_of_server(call: Call) -> Answer:
    """List the migrations of a server: none."""
    server_details.read(call.zone, call.caller, call.args["id"])
    return ok({"migrations": []})


def show(call: Call) -> Answer:
    """Show a migration of a server, which has none."""
    raise _unknown(call)


def abort(call: Call) -> Answer:
    """Abort a migration of a server, which has none."""
    raise _unknown(call)


def complete(call: Call) -> Answer:
    """Complete a live migration of a server, which has none."""
    raise _unknown(call)


def _unknown(call: Call) -> NotFound:
    server_details.read(call.zone, call.caller, call.args["id"])
    return NotFound("The server has no such migration.", code="migration_not_found", field="migration_id")
