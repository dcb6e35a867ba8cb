"""Quotas of projects and parents and their usage, in OpenStack's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.quota_sets import UNLIMITED, shown
from zonesched.api.schemas.fields import MAX_ITEMS
from zonesched.errors import Forbidden
from zonesched.model.caller import Role
from zonesched.model.openstack_time import iso_time
from zonesched.services.catalog import keypairs, quota_overrides
from zonesched.services.catalog.quota_overrides import LimitsView, ProjectUse
from zonesched.services.state.quotas import Limit

WITHOUT_NETWORKS, WITHOUT_IMAGES, WITHOUT_FILES = 36, 39, 57
"""Microversions: without the limits of networks, of images' properties, and of injected files."""

UNIT_S = {"MINUTE": 60, "HOUR": 3600}
URIS = {
    "project_boots_per_minute": "/servers",
    "project_dry_runs_per_minute": "/zones/boot",
    "parent_holds_per_minute": "/servers",
    "parent_selects_per_minute": "/zones/select",
    "parent_selects_per_hour": "/zones/select",
    "parent_entries_per_minute": "/zones/select",
}
"""URLs by rate: each limits the POST calls to its URL."""


def show(call: Call) -> Answer:
    """Show the quotas of the caller's project, or of a parent, and their usage."""
    store, quotas = call.zone.store, call.zone.quotas
    if call.caller.role is Role.PARENT:
        return ok({"limits": _json(quota_overrides.of_caller(store, quotas, call.caller), _now(call))})
    project_id = call.query.tenant_id or call.caller.project_id
    if project_id != call.caller.project_id and call.caller.role is not Role.ADMIN:
        raise Forbidden("tenant_id: only an admin reads another project's limits.", field="tenant_id")
    limits, used = quota_overrides.limits_and_use(store, quotas, call.zone.uuid, project_id)
    found = _json(limits, _now(call))
    found["absolute"] |= _nova_json(call, used, found["absolute"])
    return ok({"limits": found})


def _nova_json(call: Call, used: ProjectUse, absolute: Mapping[str, int]) -> dict[str, int]:
    """Return the limits of a project under OpenStack Nova's names; -1 is none."""
    found = {
        "maxTotalInstances": shown(absolute["project_instances"]),
        "maxTotalCores": UNLIMITED,
        "maxTotalRAMSize": UNLIMITED,
        "maxTotalKeypairs": keypairs.MAX_PER_USER,
        "maxServerMeta": MAX_ITEMS,
        "maxServerGroups": call.zone.conf.max_server_groups,
        "maxServerGroupMembers": UNLIMITED,
        "totalInstancesUsed": used.instances,
        "totalCoresUsed": used.vcpus,
        "totalRAMUsed": used.ram_mb,
        "totalServerGroupsUsed": used.server_groups,
    }
    if not call.version.has(WITHOUT_NETWORKS):
        names = ("maxSecurityGroups", "maxSecurityGroupRules", "maxTotalFloatingIps")
        found |= dict.fromkeys(names, UNLIMITED)
        found |= {"totalSecurityGroupsUsed": 0, "totalFloatingIpsUsed": 0}
    if not call.version.has(WITHOUT_IMAGES):
        found["maxImageMeta"] = MAX_ITEMS
    if not call.version.has(WITHOUT_FILES):
        found |= dict.fromkeys(("maxPersonality", "maxPersonalitySize"), 0)
    return found


def list_overrides(call: Call) -> Answer:
    """List the projects and parents that have quota overrides."""
    found = quota_overrides.list_all(call.zone.store)
    return ok({"projects": dict(found.projects), "parents": dict(found.parents)})


def show_project(call: Call) -> Answer:
    """Show the quotas of one project."""
    return _of(call, quota_overrides.of_project(call.zone.store, call.zone.quotas, call.args["id"]))


def change_project(call: Call) -> Answer:
    """Set quota overrides of one project, or remove them."""
    return _of(
        call,
        quota_overrides.change_project(
            call.zone.store, call.zone.quotas, call.args["id"], call.body.limits.to_changes()
        ),
    )


def show_parent(call: Call) -> Answer:
    """Show the quotas of one parent."""
    return _of(call, quota_overrides.of_parent(call.zone.store, call.zone.quotas, call.args["name"]))


def change_parent(call: Call) -> Answer:
    """Set quota overrides of one parent, or remove them."""
    return _of(
        call,
        quota_overrides.change_parent(
            call.zone.store, call.zone.quotas, call.args["name"], call.body.limits.to_changes()
        ),
    )


def _of(call: Call, view: LimitsView) -> Answer:
    return ok({"limits": {**_json(view.limits, _now(call)), "overrides": dict(view.overrides)}})


def _now(call: Call) -> float:
    return call.zone.clock.now()


def _json(found: Sequence[Limit], now: float) -> dict[str, Any]:
    absolute = {key: value for limit in found if not limit.unit for key, value in _absolute(limit)}
    return {"absolute": absolute, "rate": [_rate(limit, now) for limit in found if limit.unit]}


def _absolute(limit: Limit) -> list[tuple[str, int]]:
    return [(limit.name, limit.value), *([(f"{limit.name}_used", limit.used)] if limit.is_counted else [])]


def _rate(limit: Limit, now: float) -> dict[str, Any]:
    left = max(0, limit.value - limit.used)
    # A bucket fills evenly: one call is free again after its share of the unit.
    free_at = now if left else now + UNIT_S[limit.unit] / max(1, limit.value)
    uri = URIS[limit.name]
    one = {
        "verb": "POST",
        "value": limit.value,
        "remaining": left,
        "unit": limit.unit,
        "next-available": iso_time(free_at),
    }
    return {"name": limit.name, "uri": uri, "regex": f"^{uri}$", "limit": [one]}
