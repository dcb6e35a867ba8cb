"""Moves of servers between hosts of this zone, as OpenStack's migrations."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import BadRequest, NotFound
from zonesched.model.migrations import MigrationView
from zonesched.model.openstack_time import zoneless_time
from zonesched.services.owners import migrations

PAGED = 59
"""Microversion: with a link to the next page."""

_AMOUNTS = [
    f"{what}_{which}_bytes" for what in ("memory", "disk") for which in ("total", "processed", "remaining")
]


def list_all(call: Call) -> Answer:
    """List the migrations of all servers, newest first."""
    found, marker = migrations.list_all(call.zone.store, call.query.to_query())
    body: dict[str, Any] = {"migrations": [_json(view) for view in found]}
    if marker and call.version.has(PAGED):
        body["migrations_links"] = call.links.next_page(marker)
    return ok(body)


def list_of_server(call: Call) -> Answer:
    """List the migrations of a server that are under way."""
    found = migrations.under_way(call.zone, call.caller, call.args["id"])
    return ok({"migrations": [_json_of_server(view) for view in found]})


def show(call: Call) -> Answer:
    """Show a migration of a server that is under way."""
    return ok({"migration": _json_of_server(_existing(call))})


def abort(call: Call) -> Answer:
    """Refuse to abort a migration: only a live migration could be."""
    raise _not_live(call)


def complete(call: Call) -> Answer:
    """Refuse to complete a migration: only a live migration could be."""
    raise _not_live(call)


def _not_live(call: Call) -> BadRequest:
    _existing(call)
    message = "This is not a live migration: it ends by itself."
    return BadRequest(message, code="migration_not_live", field="migration_id")


def _existing(call: Call) -> MigrationView:
    for view in migrations.under_way(call.zone, call.caller, call.args["id"]):
        if view.id == call.args["migration_id"]:
            return view
    raise NotFound("The server has no such migration.", code="migration_not_found", field="migration_id")


def _json_of_server(view: MigrationView) -> dict[str, Any]:
    """Return a migration of a server with its amounts, which only a live migration would have."""
    return {**_json(view), **dict.fromkeys(_AMOUNTS)}


def _json(view: MigrationView) -> dict[str, Any]:
    source, dest = view.source_host or None, view.dest_host or None
    return {
        "id": view.id,
        "uuid": view.id,
        "instance_uuid": view.server_uuid,
        "server_uuid": view.server_uuid,
        "status": view.status,
        "migration_type": view.kind.value,
        "source_compute": source,
        "source_node": source,
        "dest_compute": dest,
        "dest_node": dest,
        "dest_host": None,
        "old_instance_type_id": None,
        "new_instance_type_id": None,
        "user_id": view.user_id,
        "project_id": view.project_id,
        "created_at": zoneless_time(view.created_at),
        "updated_at": zoneless_time(view.updated_at),
    }
