"""Servers, their details, inside, actions and moves."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.api.openapi_answers.forms import (
    ANY_OBJECT,
    LINKS,
    NULL,
    NUMBER,
    TEXT,
    TIME,
    TRUTH,
    UUID,
    WHOLE,
    ZONELESS,
    Form,
    either,
    list_of,
    map_of,
    object_of,
    one_of,
    or_null,
)

_TEXTS = map_of(TEXT)
_SIZES = dict.fromkeys(("vcpus", "ram", "disk", "ephemeral", "swap"), WHOLE)
_FLAVOR = either(
    object_of({"id": TEXT, "name": TEXT, "links": LINKS}),
    object_of({"original_name": TEXT, **_SIZES, "extra_specs": _TEXTS}),
)
_IMAGE = either({"const": ""}, object_of({"id": TEXT, "name": TEXT, "links": LINKS}, {"properties": _TEXTS}))
_ATTEMPT = object_of({"attempt": WHOLE, "reason": TEXT}, {"host": TEXT, "zone": TEXT})
_FAULT = object_of(
    {"code": WHOLE, "message": TEXT, "error_code": TEXT, "created": TIME, "attempts": list_of(_ATTEMPT)},
    {"details": TEXT},
)
_GROUPS = list_of(object_of({"name": TEXT}))
_WHOLE_GROUP = dict.fromkeys(("id", "name", "description", "tenant_id"), TEXT)
_DISK_CONFIG = one_of("MANUAL", "AUTO")
_BRIEF: Mapping[str, Form] = {"id": UUID, "name": TEXT, "links": LINKS}
_FULL: Mapping[str, Form] = {
    **_BRIEF,
    "status": TEXT,
    "tenant_id": TEXT,
    "user_id": TEXT,
    "hostId": TEXT,
    "created": TIME,
    "updated": TIME,
    "flavor": _FLAVOR,
    "image": _IMAGE,
    "reservation_id": UUID,
    "stale": TRUTH,
    "metadata": _TEXTS,
    "key_name": or_null(TEXT),
    "config_drive": TEXT,
    "security_groups": _GROUPS,
    "addresses": object_of({}),
    "accessIPv4": TEXT,
    "accessIPv6": TEXT,
    "OS-DCF:diskConfig": _DISK_CONFIG,
    "OS-EXT-AZ:availability_zone": TEXT,
    "OS-EXT-STS:vm_state": TEXT,
    "OS-EXT-STS:task_state": or_null(TEXT),
    "OS-EXT-STS:power_state": WHOLE,
    "OS-SRV-USG:launched_at": or_null(ZONELESS),
    "OS-SRV-USG:terminated_at": or_null(ZONELESS),
    "os-extended-volumes:volumes_attached": list_of(object_of({})),
}
_BY_VERSION: Mapping[str, Form] = {
    "locked": TRUTH,
    "locked_reason": or_null(TEXT),
    "description": or_null(TEXT),
    "tags": list_of(TEXT),
    "trusted_image_certificates": NULL,
    "server_groups": list_of(TEXT),
    "OS-EXT-SRV-ATTR:hostname": TEXT,
    "pinned_availability_zone": or_null(TEXT),
}
_OF_ADMIN: Mapping[str, Form] = {
    "child_zone": TEXT,
    "OS-EXT-SRV-ATTR:host": or_null(TEXT),
    "OS-EXT-SRV-ATTR:hypervisor_hostname": or_null(TEXT),
    "OS-EXT-SRV-ATTR:instance_name": TEXT,
    "OS-EXT-SRV-ATTR:launch_index": WHOLE,
    "OS-EXT-SRV-ATTR:reservation_id": UUID,
    "OS-EXT-SRV-ATTR:kernel_id": TEXT,
    "OS-EXT-SRV-ATTR:ramdisk_id": TEXT,
    "OS-EXT-SRV-ATTR:root_device_name": NULL,
    "host_status": one_of("UP", "DOWN", "MAINTENANCE", "UNKNOWN", ""),
}
_AT_TIMES: Mapping[str, Form] = {**_BY_VERSION, **_OF_ADMIN, "progress": WHOLE, "fault": _FAULT}
SERVER = object_of(_FULL, _AT_TIMES)
_REBUILT = object_of({**_FULL, "adminPass": TEXT}, {**_AT_TIMES, "user_data": NULL})
_POWERS = ("running", "stopped", "paused", "suspended", "offloaded")
_COUNTS = object_of({"begun": WHOLE, "confirmed": WHOLE, "reverted": WHOLE})
_OBSERVED = {
    "observed": object_of(
        {"generation": WHOLE, "power": one_of(*_POWERS), "reason": TEXT, "rebuilds": WHOLE},
        {"resizes": _COUNTS},
    ),
    "moves": object_of({"begun": WHOLE, "ended": WHOLE}),
}
_BUILD_STATES = one_of("held", "confirmed", "gone", "failed", "pending")
_SENT: Mapping[str, Form] = {"attempt": WHOLE, "state": _BUILD_STATES, "reason": TEXT, "status": TEXT}
SERVER_OF_PARENT = object_of({"id": UUID, **_SENT, "reservation_id": UUID}, _OBSERVED)
CHANGED_OF_PARENT = object_of({"uuid": UUID, **_SENT}, _OBSERVED)
BUILD = object_of({"uuid": UUID, "attempt": WHOLE, "state": _BUILD_STATES, "hold_s": NUMBER, "reason": TEXT})
_TAKEN = object_of(
    {
        "uuid": UUID,
        "attempt": WHOLE,
        "state": TEXT,
        "generation": WHOLE,
        "reboots": WHOLE,
        "rebuilds": WHOLE,
        "resizes": _COUNTS,
    }
)
_CREATED = object_of(
    {
        "id": UUID,
        "links": LINKS,
        "adminPass": TEXT,
        "OS-DCF:diskConfig": _DISK_CONFIG,
        "security_groups": _GROUPS,
    }
)
_LISTED = object_of({"servers": list_of(SERVER)}, {"servers_links": LINKS})
_BRIEFS = object_of({"servers": list_of(object_of(_BRIEF))}, {"servers_links": LINKS})
_ONE = object_of({"server": SERVER})
_METADATA, _META, _TAGS = (
    object_of({"metadata": _TEXTS}),
    object_of({"meta": _TEXTS}),
    object_of({"tags": list_of(TEXT)}),
)

_ACTION: Mapping[str, Form] = {
    "action": TEXT,
    "instance_uuid": UUID,
    "request_id": TEXT,
    "user_id": TEXT,
    "project_id": TEXT,
    "start_time": ZONELESS,
    "updated_at": ZONELESS,
    "finish_time": or_null(ZONELESS),
    "message": or_null(TEXT),
    "result": or_null(one_of("done", "error", "superseded")),
    "error_code": TEXT,
}
_EVENT = object_of(
    {
        "event": TEXT,
        "start_time": ZONELESS,
        "finish_time": or_null(ZONELESS),
        "result": or_null(one_of("Success", "Error", "Superseded")),
        "details": or_null(TEXT),
        "traceback": NULL,
    },
    {"hostId": one_of("")},
)
_MIGRATION: Mapping[str, Form] = {
    "id": UUID,
    "uuid": UUID,
    "instance_uuid": UUID,
    "server_uuid": UUID,
    "status": TEXT,
    "migration_type": one_of("migration", "resize"),
    **dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node"), or_null(TEXT)),
    **dict.fromkeys(("dest_host", "old_instance_type_id", "new_instance_type_id"), NULL),
    "user_id": TEXT,
    "project_id": TEXT,
    "created_at": ZONELESS,
    "updated_at": ZONELESS,
}
_AMOUNTS = {
    f"{what}_{which}_bytes": NULL
    for what in ("memory", "disk")
    for which in ("total", "processed", "remaining")
}
_DIAGNOSTICS = object_of(
    {
        "state": TEXT,
        **dict.fromkeys(("driver", "hypervisor", "hypervisor_os"), NULL),
        "uptime": or_null(WHOLE),
        "config_drive": TRUTH,
        **dict.fromkeys(("num_cpus", "num_nics", "num_disks"), WHOLE),
        **dict.fromkeys(("cpu_details", "nic_details", "disk_details"), list_of(ANY_OBJECT)),
        "memory_details": object_of({"maximum": WHOLE, "used": NULL}),
    }
)
_TAKEN_EVENT = object_of(
    {
        "name": TEXT,
        "server_uuid": UUID,
        "code": WHOLE,
        "status": one_of("completed", "failed"),
    },
    {"tag": TEXT},
)

_FLAVOR_OF_REQUEST = object_of({"id": TEXT, "name": TEXT, **_SIZES, "extra_specs": _TEXTS})
_IMAGE_OF_REQUEST = object_of({"id": TEXT, "name": TEXT, "properties": _TEXTS})
_IMAGE_AND_FLAVOR = object_of({}, {"image": _IMAGE_OF_REQUEST, "flavor": _FLAVOR_OF_REQUEST})

ANSWERS: Mapping[str, Form] = {
    "servers_create 202": either(object_of({"server": _CREATED}), object_of({"reservation_id": UUID})),
    "servers_build 202": object_of({"builds": list_of(BUILD)}, {"reservation_id": UUID}),
    "servers_list_brief 200": _BRIEFS,
    "servers_list_detail 200": _LISTED,
    "servers_list_to_parent 200": object_of({"servers": list_of(SERVER_OF_PARENT)}, {"servers_links": LINKS}),
    "servers_show 200": _ONE,
    "servers_request_of 200": object_of(
        {
            "request": object_of({"reservation_id": UUID, "project_id": TEXT}),
            "flavor": _FLAVOR_OF_REQUEST,
            "image": _IMAGE_OF_REQUEST,
            "settled": _IMAGE_AND_FLAVOR,
            "desired": _IMAGE_AND_FLAVOR,
        }
    ),
    "servers_show_to_parent 200": object_of({"server": SERVER_OF_PARENT}),
    "server_details_change 200": _ONE,
    "actions_take_desired 200": object_of({"servers": list_of(_TAKEN)}),
    "actions_act 202": object_of({"server": _REBUILT}),
    "actions_act 200": object_of({"output": TEXT}),
    "actions_console 200": object_of({"state": TEXT, "output": TEXT}),
    "actions_act_on_boot 202": object_of(
        {
            "accepted": WHOLE,
            "refused": list_of(object_of({"uuid": UUID, "error_code": TEXT, "message": TEXT})),
        }
    ),
    "actions_list_all 200": object_of({"instanceActions": list_of(object_of(_ACTION))}, {"links": LINKS}),
    "actions_show 200": object_of({"instanceAction": object_of({**_ACTION, "events": list_of(_EVENT)})}),
    **dict.fromkeys(
        (f"server_details_{name}_metadata 200" for name in ("list", "add", "replace")), _METADATA
    ),
    **dict.fromkeys(("server_details_show_metadata 200", "server_details_set_metadata 200"), _META),
    **dict.fromkeys(("server_details_list_tags 200", "server_details_replace_tags 200"), _TAGS),
    "server_details_list_addresses 200": object_of({"addresses": object_of({})}),
    "server_details_list_security_groups 200": object_of(
        {"security_groups": list_of(object_of({**_WHOLE_GROUP, "rules": list_of(object_of({}))}))}
    ),
    "server_details_list_interfaces 200": object_of({"interfaceAttachments": list_of(object_of({}))}),
    "server_details_list_volumes 200": object_of({"volumeAttachments": list_of(object_of({}))}),
    "unkept_list_shares 200": object_of({"shares": list_of(object_of({}))}),
    "migrations_list_all 200": object_of(
        {"migrations": list_of(object_of(_MIGRATION))}, {"migrations_links": LINKS}
    ),
    "migrations_list_of_server 200": object_of(
        {"migrations": list_of(object_of({**_MIGRATION, **_AMOUNTS}))}
    ),
    "migrations_show 200": object_of({"migration": object_of({**_MIGRATION, **_AMOUNTS})}),
    "server_internals_diagnostics 200": either(_DIAGNOSTICS, object_of({"memory": WHOLE})),
    "server_internals_topology 200": object_of({"nodes": list_of(ANY_OBJECT), "pagesize_kb": NULL}),
    "server_internals_show_password 200": object_of({"password": TEXT}),
    **dict.fromkeys(
        ("external_events_take 200", "external_events_take 207"), object_of({"events": list_of(_TAKEN_EVENT)})
    ),
}
