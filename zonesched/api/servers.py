"""Instances: boots of users, builds of parents, lists and deletes."""

from __future__ import annotations

import re

from zonesched.api import server_filters
from zonesched.api.admin_password import random_password
from zonesched.api.answer import Answer, accepted, no_content, ok
from zonesched.api.body import fingerprint
from zonesched.api.builds import answers_json
from zonesched.api.call import Call
from zonesched.api.schemas.builds import ParentServer
from zonesched.api.schemas.server_list import are_of_no_server
from zonesched.api.server_json import brief_json, image_and_flavor_json, parent_json, server_json, shown_json
from zonesched.errors import BadRequest, Forbidden
from zonesched.model.boot_form import BootForm
from zonesched.model.caller import Role
from zonesched.model.placement import Attempt, Build
from zonesched.model.request_wire import flavor_to_wire, image_to_wire
from zonesched.model.views import ServerView
from zonesched.services.boot import boot
from zonesched.services.owners import reclaims, servers
from zonesched.services.parent import hold
from zonesched.services.parent.build_answers import reservation_of
from zonesched.services.recovery import requests

IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def create(call: Call) -> Answer:
    """Boot one instance, or several as one batch; answers before they are built."""
    made = boot.accept(call.zone, call.caller, boot_form(call))
    if call.body.server.return_reservation_id:
        return accepted({"reservation_id": made.reservation_id})
    links = call.links.of("servers", made.uuids[0])
    server = {
        "id": made.uuids[0],
        "links": links,
        "adminPass": call.body.server.admin_pass or random_password(call.zone.clock),
        "OS-DCF:diskConfig": call.body.server.disk_config,
        "security_groups": [{"name": name} for name in call.body.server.security_group_names()],
    }
    return accepted({"server": server}, Location=links[0]["href"])


def build(call: Call) -> Answer:
    """Hold the places of a parent's sealed entries; one answer for each build."""
    server = call.body.checked()
    spec = call.body.request_spec.to_spec()
    builds = server.to_builds(call.zone.clock.new_uuid())
    reservation_id = server.reservation_id or _reservation_of(call, server, builds[0])
    hold_s = server.hold_or(call.zone.conf.hold)
    answers = hold.hold_builds(call.zone, call.caller, reservation_id, builds, hold_s, spec)
    made_here = {} if server.reservation_id else {"reservation_id": reservation_id}
    return accepted({**answers_json(answers), **made_here})


def _reservation_of(call: Call, server: ParentServer, build: Build) -> str:
    """Return the reservation of a single blob that came without one: of a repeat, that of the first call."""
    known = (
        reservation_of(call.zone.store, call.caller, Attempt(build.uuid, build.attempt))
        if server.uuid
        else ""
    )
    return known or call.zone.clock.new_uuid()


def list_brief(call: Call) -> Answer:
    """List the caller's instances, with id and name."""
    found, marker = _list(call)
    return ok({"servers": [brief_json(view, call.links) for view in found], **_next_page(call, marker)})


def list_detail(call: Call) -> Answer:
    """List the caller's instances, in full."""
    found, marker = _list(call)
    full = [server_json(view, call.links, call.version) for view in found]
    return ok({"servers": full, **_next_page(call, marker)})


def show(call: Call) -> Answer:
    """Show one instance, wherever in the tree it is."""
    view = servers.show(call.zone, call.caller, call.args["id"], call.is_wanted)
    return ok({"server": shown_json(view, call.links, call.version)})


def list_to_parent(call: Call) -> Answer:
    """List the instances that a parent sent."""
    if are_of_no_server(call.query.status):
        return ok({"servers": []})
    found, marker = servers.list_servers(call.zone, call.caller, call.query.to_query())
    return ok({"servers": [parent_json(view) for view in found], **_next_page(call, marker)})


def show_to_parent(call: Call) -> Answer:
    """Show the status of one instance of a parent."""
    return ok({"server": parent_json(servers.show(call.zone, call.caller, call.args["id"], call.is_wanted))})


def request_of(call: Call) -> Answer:
    """Give a parent back the request that it sent an instance with, and its image and flavor since."""
    found = requests.of_parent(call.zone, call.caller, call.args["id"])
    sent = found.requested
    return ok(
        {
            "request": {"reservation_id": sent.reservation_id, "project_id": sent.spec.project_id},
            "flavor": flavor_to_wire(sent.spec.flavor),
            "image": image_to_wire(sent.spec.image),
            "settled": image_and_flavor_json(found.settled),
            "desired": image_and_flavor_json(found.desired),
        }
    )


def delete(call: Call) -> Answer:
    """Delete an instance, wherever in the tree it is; its resources are released once."""
    reclaims.delete(call.zone, call.caller, call.args["id"])
    return no_content()


def delete_for_parent(call: Call) -> Answer:
    """Delete an instance of a parent at the attempt that it names, and at no other one."""
    servers.delete(call.zone, call.caller, call.args["id"], call.query.attempt)
    return no_content()


def boot_form(call: Call) -> BootForm:
    """Return the boot that the user asks for. Raises BadRequest for a malformed Idempotency-Key."""
    key = call.headers.get("Idempotency-Key")
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise BadRequest("Idempotency-Key: 1 to 255 visible ASCII characters.", field="Idempotency-Key")
    by_admin = call.caller.role is Role.ADMIN
    form: BootForm = call.body.to_form(key or "", fingerprint(call.unverified_body), by_admin=by_admin)
    return form


def _list(call: Call) -> tuple[list[ServerView], str]:
    if call.query.all_tenants and call.caller.role is not Role.ADMIN:
        raise Forbidden("all_tenants: only an admin lists other projects.", field="all_tenants")
    by_admin = call.caller.role is Role.ADMIN
    query, search = call.query.to_query(by_admin=by_admin), server_filters.asked(call)
    if call.query.names_what_no_server_has:
        return [], ""
    found, marker = servers.list_servers(call.zone, call.caller, query, search)
    return list(found), marker


def _next_page(call: Call, marker: str) -> dict[str, list[dict[str, str]]]:
    return {"servers_links": call.links.next_page(marker)} if marker else {}
