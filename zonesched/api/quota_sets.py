"""Quotas of projects in the form of OpenStack Nova's quota sets.

A zone limits the instances of a project, and neither their cores nor their RAM, which are -1; its options
limit the rest. Its own form, with the other limits of projects and parents, is /limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.schemas.fields import MAX_INT, MAX_ITEMS
from zonesched.api.schemas.quota_sets import QuotaSet
from zonesched.errors import BadRequest, NotFound
from zonesched.model.caller import Role
from zonesched.services.catalog import keypairs, quota_overrides
from zonesched.services.state.quotas import Limit

PROJECT_INSTANCES = "project_instances"
UNLIMITED = -1
LARGEST = MAX_INT
"""The quota of instances that is no limit, since it can be overridden with nothing larger."""
WITHOUT_NETWORKS, CLASS_WITHOUT_NETWORKS, WITHOUT_FILES = 36, 50, 57
"""Microversions without the quotas of networks, and in quota classes, and without those of injected files."""

_NETWORKS = ("fixed_ips", "floating_ips", "security_group_rules", "security_groups")
_FILES = ("injected_file_content_bytes", "injected_file_path_bytes", "injected_files")


def show(call: Call) -> Answer:
    """Show the quotas of a project; a member sees those of their own."""
    project = _readable(call)
    found = quota_overrides.of_project(call.zone.store, call.zone.quotas, project)
    return ok({"quota_set": {"id": project, **_quotas(call, _instances(found.limits))}})


def show_detail(call: Call) -> Answer:
    """Show the quotas of a project with their use."""
    project = _readable(call)
    zone = call.zone
    limits, used = quota_overrides.limits_and_use(zone.store, zone.quotas, zone.uuid, project)
    in_use = {
        "instances": used.instances,
        "cores": used.vcpus,
        "ram": used.ram_mb,
        "server_groups": used.server_groups,
    }
    quotas = {
        name: {"limit": value, "in_use": in_use.get(name, 0), "reserved": 0}
        for name, value in _quotas(call, _instances(limits)).items()
    }
    return ok({"quota_set": {"id": project, **quotas}})


def defaults(call: Call) -> Answer:
    """Show the quotas of a project that has no overrides."""
    return ok({"quota_set": {"id": _readable(call), **_quotas(call, call.zone.conf.project_instances)}})


def change(call: Call) -> Answer:
    """Override the quota of a project's instances; the others are not limited here.

    Raises BadRequest for fewer than the project has, unless the caller forces it, and for a user's quota.
    """
    zone, asked = call.zone, call.body.quota_set
    _refuse_user(call)
    _refuse_others(call, "quota_set", asked)
    if asked.instances is not None:
        wanted = LARGEST if asked.instances == UNLIMITED else asked.instances
        if not asked.force:
            _check_use(call, wanted)
        changes = {PROJECT_INSTANCES: wanted}
        quota_overrides.change_project(zone.store, zone.quotas, call.args["id"], changes)
    found = quota_overrides.of_project(zone.store, zone.quotas, call.args["id"])
    return ok({"quota_set": _quotas(call, _instances(found.limits))})


def reset(call: Call) -> Answer:
    """Remove the override of a project's instances. Raises BadRequest for a user's quota."""
    zone = call.zone
    _refuse_user(call)
    quota_overrides.change_project(zone.store, zone.quotas, call.args["id"], {PROJECT_INSTANCES: None})
    return Answer(202)


def show_class(call: Call) -> Answer:
    """Show the quotas of the class `default`: those of a project without overrides."""
    quotas = _quotas(call, call.zone.conf.project_instances, CLASS_WITHOUT_NETWORKS)
    return ok({"quota_class_set": {"id": call.args["id"], **quotas}})


def change_class(call: Call) -> Answer:
    """Accept the quotas of the class `default` as they are: the zone's options set them."""
    asked, present = call.body.quota_class_set, call.zone.conf.project_instances
    _refuse_others(call, "quota_class_set", asked)
    if asked.instances not in (None, present, shown(present)):
        field = "quota_class_set.instances"
        message = f"{field}: the zone's option {PROJECT_INSTANCES} sets it; it is {present}."
        raise BadRequest(message, field=field)
    return ok({"quota_class_set": _quotas(call, present, CLASS_WITHOUT_NETWORKS)})


def _refuse_others(call: Call, name: str, asked: QuotaSet) -> None:
    """Raise BadRequest for a quota that a zone does not have, unless it has the value that it shows."""
    quotas = {**_of_old_versions(networks=True, files=True), **_quotas(call, UNLIMITED)}
    for quota, value in asked.others().items():
        if value != quotas[quota]:
            raise BadRequest(f"{name}.{quota}: this zone sets no such quota.", field=f"{name}.{quota}")


def _refuse_user(call: Call) -> None:
    """Raise BadRequest for the quota of one user, which would else become that of the whole project."""
    if call.query.user_id:
        raise BadRequest("user_id: a zone has no quotas of single users.", field="user_id")


def _check_use(call: Call, instances: int) -> None:
    """Raise BadRequest where the project has more instances."""
    used = quota_overrides.use_of_project(call.zone.store, call.zone.uuid, call.args["id"]).instances
    if instances < used:
        field = "quota_set.instances"
        message = f'{field}: the project has {used} instances; "force": true sets a quota below that.'
        raise BadRequest(message, code="out_of_range", field=field)


def _readable(call: Call) -> str:
    project: str = call.args["id"]
    if call.caller.role is not Role.ADMIN and project != call.caller.project_id:
        # As for whatever else is another project's: a caller does not learn whether it exists.
        raise NotFound("The caller has no such project.", code="project_not_found", field="id")
    return project


def _instances(limits: Sequence[Limit]) -> int:
    return next(limit.value for limit in limits if limit.name == PROJECT_INSTANCES)


def shown(instances: int) -> int:
    """Return a quota of instances as OpenStack's clients read it."""
    return instances if instances < LARGEST else UNLIMITED


def _of_old_versions(*, networks: bool, files: bool) -> dict[str, int]:
    # No driver writes files into a server.
    return {
        **(dict.fromkeys(_NETWORKS, UNLIMITED) if networks else {}),
        **(dict.fromkeys(_FILES, 0) if files else {}),
    }


def _quotas(call: Call, instances: int, without_networks: int = WITHOUT_NETWORKS) -> Mapping[str, Any]:
    return {
        "instances": shown(instances),
        "cores": UNLIMITED,
        "ram": UNLIMITED,
        "key_pairs": keypairs.MAX_PER_USER,
        "metadata_items": MAX_ITEMS,
        "server_groups": call.zone.conf.max_server_groups,
        "server_group_members": UNLIMITED,
        **_of_old_versions(
            networks=not call.version.has(without_networks), files=not call.version.has(WITHOUT_FILES)
        ),
    }
