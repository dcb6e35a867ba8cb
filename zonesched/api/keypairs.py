"""Key pairs of the caller, in OpenStack's shapes; an admin may name another user."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import NO_CONTENT, Answer, ok
from zonesched.api.call import Call
from zonesched.errors import BadRequest, Forbidden
from zonesched.model.caller import Role
from zonesched.model.keypair import Keypair
from zonesched.model.openstack_time import zoneless_time
from zonesched.services.catalog import keypairs

TYPED, OF_OTHERS, PAGED, IMPORT_ONLY = 2, 10, 35, 92
"""Microversions: with a type, with a user, with pages, and without making keys."""


def list_all(call: Call) -> Answer:
    """List the key pairs of the caller by name, or of a user whom an admin names."""
    store, query = call.zone.store, call.query
    found = keypairs.list_keypairs(store, _owner(call, query.user_id), query.marker, query.limit + 1)
    page = found[: query.limit]
    body: dict[str, Any] = {"keypairs": [{"keypair": _brief(call, keypair)} for keypair in page]}
    if 0 < query.limit < len(found) and call.version.has(PAGED):
        body["keypairs_links"] = call.links.next_page(page[-1].name)
    return ok(body)


def show(call: Call) -> Answer:
    """Show one key pair."""
    found = keypairs.show(call.zone.store, _owner(call, call.query.user_id), call.args["name"])
    return ok({"keypair": {**_brief(call, found), **_record(found)}})


def create(call: Call) -> Answer:
    """Import the public half of a key pair, or make one and return its private half once."""
    zone, asked = call.zone, call.body.keypair
    owner = _owner(call, asked.user_id, field="keypair.user_id")
    status = 201 if call.version.has(TYPED) else 200
    if asked.public_key:
        added = keypairs.add(zone.store, zone.clock, owner, asked.name, asked.public_key)
        return Answer(status, {"keypair": {**_brief(call, added), "user_id": owner}})
    if call.version.has(IMPORT_ONLY):
        field = "keypair.public_key"
        raise BadRequest(f"{field}: is required from 2.{IMPORT_ONLY} on.", code="missing_field", field=field)
    added, made = keypairs.make(zone.store, zone.clock, owner, asked.name)
    content = {**_brief(call, added), "user_id": owner, "private_key": made.private_key}
    return Answer(status, {"keypair": content})


def delete(call: Call) -> Answer:
    """Remove a key pair; servers that were booted with it keep it."""
    keypairs.remove(call.zone.store, _owner(call, call.query.user_id), call.args["name"])
    return Answer(NO_CONTENT if call.version.has(TYPED) else 202)


def _owner(call: Call, user_id: str, field: str = "user_id") -> str:
    """Return the user whose key pairs are meant. Raises Forbidden for another one than the caller."""
    if not user_id or user_id == call.caller.user_id:
        return call.caller.user_id
    if call.caller.role is not Role.ADMIN or not call.version.has(OF_OTHERS):
        raise Forbidden(f"{field}: only an admin names another user, from 2.{OF_OTHERS} on.", field=field)
    return user_id


def _brief(call: Call, keypair: Keypair) -> dict[str, Any]:
    content = {
        "name": keypair.name,
        "public_key": keypair.public_key,
        "fingerprint": keypair.fingerprint,
    }
    return {**content, "type": "ssh"} if call.version.has(TYPED) else content


def _record(keypair: Keypair) -> dict[str, Any]:
    return {
        "id": keypair.number,
        "user_id": keypair.user_id,
        "created_at": zoneless_time(keypair.created_at),
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
