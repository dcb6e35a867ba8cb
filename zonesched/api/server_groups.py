"""Server groups, in OpenStack's older form and its newer one at once."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.api.schemas.fields import LONGEST_PAGE
from zonesched.model.request_spec import GroupPolicy
from zonesched.model.views import ServerGroupView
from zonesched.services.catalog import server_groups


def list_all(call: Call) -> Answer:
    """List the groups of the caller's project, oldest first; with `all_projects`, an admin's list of all."""
    query = call.query
    found = server_groups.list_groups(
        call.zone.store,
        call.zone.uuid,
        call.caller,
        all_projects=query.all_projects,
        marker=query.marker,
        offset=query.offset,
        limit=query.limit or LONGEST_PAGE,
    )
    return ok({"server_groups": [_json(group) for group in found]})


def show(call: Call) -> Answer:
    """One group, with its members."""
    return ok(
        {
            "server_group": _json(
                server_groups.show(call.zone.store, call.zone.uuid, call.caller, call.args["id"])
            )
        }
    )


def create(call: Call) -> Answer:
    """Add a group to the caller's project."""
    return ok(
        {
            "server_group": _json(
                server_groups.create(
                    call.zone.store, call.zone.clock, call.zone.conf, call.caller, call.body.to_form()
                )
            )
        }
    )


def delete(call: Call) -> Answer:
    """Remove a group; its members stay as they are."""
    server_groups.delete(call.zone.store, call.caller, call.args["id"])
    return no_content()


def _json(group: ServerGroupView) -> dict[str, Any]:
    has_rules = group.policy is GroupPolicy.ANTI_AFFINITY
    return {
        "id": group.id,
        "name": group.name,
        "policy": group.policy.value,
        "policies": [group.policy.value],
        "rules": {"max_server_per_host": group.max_server_per_host} if has_rules else {},
        "members": list(group.members),
        "metadata": {},
        "project_id": group.project_id,
        "user_id": group.user_id,
    }
