"""Hosts of a zone as hypervisors, services, aggregates and availability zones; and the calls of agents."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.api.openapi_answers.forms import (
    ANY_OBJECT,
    LINKS,
    NULL,
    NUMBER,
    TEXT,
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

_BRIEF: Mapping[str, Form] = {
    "id": UUID,
    "hypervisor_hostname": TEXT,
    "state": one_of("up", "down"),
    "status": one_of("enabled", "disabled"),
}
_SERVERS = {"servers": list_of(object_of({"uuid": UUID, "name": TEXT}))}
_SIZES = dict.fromkeys(
    (
        "vcpus",
        "vcpus_used",
        "memory_mb",
        "memory_mb_used",
        "free_ram_mb",
        "local_gb",
        "local_gb_used",
        "free_disk_gb",
        "running_vms",
    ),
    WHOLE,
)
_SETTINGS = {"reserved": WHOLE, "allocation_ratio": NUMBER}
_USE = object_of(
    {
        **dict.fromkeys(("total", "reserved", "capacity", "used", "agent_excess"), WHOLE),
        "allocation_ratio": NUMBER,
        "reported": object_of(_SETTINGS),
        "set": object_of({}, _SETTINGS),
    }
)
_HYPERVISOR = object_of(
    {
        **_BRIEF,
        "host_ip": TEXT,
        "hypervisor_type": TEXT,
        "hypervisor_version": WHOLE,
        **_SIZES,
        "service": object_of({"id": UUID, "host": TEXT, "disabled_reason": or_null(TEXT)}),
        "agent": TEXT,
        "availability_zone": TEXT,
        "aggregates": list_of(TEXT),
        "resources": map_of(_USE),
        "capabilities": ANY_OBJECT,
        "traits": list_of(TEXT),
    },
    {
        **_SERVERS,
        "uptime": NULL,
        # An empty text before 2.28.
        "cpu_info": either(object_of({}), {"const": ""}),
        "current_workload": WHOLE,
        "disk_available_least": NULL,
    },
)
_FOUND = object_of({"hypervisors": list_of(object_of(_BRIEF, _SERVERS))})
_ONE = object_of({"hypervisor": _HYPERVISOR})
_SUMS = object_of({"count": WHOLE, **_SIZES}, {"current_workload": WHOLE, "disk_available_least": WHOLE})

_SERVICE = object_of(
    {
        "id": UUID,
        "binary": one_of("nova-scheduler", "nova-compute", "zonesched-compute"),
        "host": TEXT,
        "zone": TEXT,
        "status": one_of("enabled", "disabled"),
        "disabled_reason": or_null(TEXT),
        "state": one_of("up", "down"),
        "forced_down": TRUTH,
        "updated_at": ZONELESS,
        "topic": TEXT,
        "report_count": WHOLE,
    }
)
_ONE_SERVICE = object_of({"service": _SERVICE})
_CHANGES = ("change", "enable", "disable", "disable_why", "force_down")

_AGGREGATE = object_of(
    {
        "id": WHOLE,
        "uuid": UUID,
        "name": TEXT,
        "availability_zone": or_null(TEXT),
        "hosts": list_of(TEXT),
        "metadata": map_of(TEXT),
        "created_at": ZONELESS,
        "updated_at": or_null(ZONELESS),
        "deleted": TRUTH,
        "deleted_at": NULL,
    }
)
_ONE_AGGREGATE = object_of({"aggregate": _AGGREGATE})

_STATE = object_of({"active": TRUTH, "available": TRUTH, "updated_at": ZONELESS})


def _zones(hosts: Form) -> Form:
    zone = {"zoneName": TEXT, "zoneState": object_of({"available": TRUTH}), "hosts": hosts}
    return object_of({"availabilityZoneInfo": list_of(object_of(zone))})


_RESOURCE = object_of(
    {"host": TEXT, "project": TEXT, **dict.fromkeys(("cpu", "memory_mb", "disk_gb"), WHOLE)}
)
_AUDIT = object_of(
    {
        "hosts_not_run": list_of(TEXT),
        "log": object_of({}),
        **dict.fromkeys(
            (
                "num_hosts",
                "num_hosts_done",
                "num_hosts_not_run",
                "num_hosts_running",
                "total_errors",
                "total_instances",
            ),
            WHOLE,
        ),
        **dict.fromkeys(("overall_status", "period_beginning", "period_ending"), TEXT),
    }
)

_PLACE = {"uuid": UUID, "attempt": WHOLE}
_ZONE = object_of({"name": TEXT, "uuid": UUID})
_INSTANCE = object_of(
    {
        **_PLACE,
        **dict.fromkeys(("host", "name", "request_id", "reservation_id", "status"), TEXT),
        "desired": object_of(
            {"generation": WHOLE, "power": TEXT, "reboots": WHOLE, "reboot_type": TEXT, "rebuilds": WHOLE}
        ),
        "observed": object_of({"generation": WHOLE, "power": TEXT, "rebuilds": WHOLE}),
        "leaves_for": WHOLE,
        "moved_from": WHOLE,
        "flavor": object_of(
            {
                "id": TEXT,
                "name": TEXT,
                **dict.fromkeys(("vcpus", "ram", "disk", "ephemeral", "swap"), WHOLE),
                "extra_specs": map_of(TEXT),
            }
        ),
        "image": object_of({"id": TEXT, "name": TEXT, "properties": map_of(TEXT)}),
    }
)
_CLAIMED = object_of({**_PLACE, "host": TEXT, "resources": map_of(WHOLE)})
_BOOKED = object_of(
    {"host": TEXT, "resource_class": TEXT, **dict.fromkeys(("used", "held", "excess"), WHOLE)}
)

ANSWERS: Mapping[str, Form] = {
    "hypervisors_list_brief 200": object_of(
        {"hypervisors": list_of(object_of(_BRIEF, _SERVERS))}, {"hypervisors_links": LINKS}
    ),
    "hypervisors_list_detail 200": object_of(
        {"hypervisors": list_of(_HYPERVISOR)}, {"hypervisors_links": LINKS}
    ),
    **dict.fromkeys(("hypervisors_search 200", "hypervisors_list_servers 200"), _FOUND),
    **dict.fromkeys(("hypervisors_show 200", "hypervisors_change 200"), _ONE),
    "hypervisors_show_uptime 200": object_of({"hypervisor": object_of({**_BRIEF, "uptime": TEXT})}),
    "hypervisors_statistics 200": object_of({"hypervisor_statistics": _SUMS}),
    "services_list_all 200": object_of({"services": list_of(_SERVICE)}),
    **dict.fromkeys((f"services_{name} 200" for name in _CHANGES), _ONE_SERVICE),
    "services_act 202": object_of({"evacuated": WHOLE, "moving": WHOLE}),
    "aggregates_list_all 200": object_of({"aggregates": list_of(_AGGREGATE)}),
    **dict.fromkeys(
        (f"aggregates_{name} 200" for name in ("create", "show", "change", "act")), _ONE_AGGREGATE
    ),
    "availability_zones_list_brief 200": _zones(NULL),
    "availability_zones_list_detail 200": _zones(map_of(map_of(_STATE))),
    "os_hosts_list_all 200": object_of(
        {"hosts": list_of(object_of({"host_name": TEXT, "service": TEXT, "zone": TEXT}))}
    ),
    "os_hosts_show 200": object_of({"host": list_of(object_of({"resource": _RESOURCE}))}),
    "os_hosts_change 200": object_of({"host": TEXT, "status": one_of("enabled", "disabled")}),
    "usage_audit_show 200": object_of({"instance_usage_audit_logs": _AUDIT}),
    "usage_audit_show_before 200": object_of({"instance_usage_audit_log": _AUDIT}),
    "hosts_register 200": object_of(
        {
            "hosts": list_of(object_of({"id": UUID, "name": TEXT})),
            "zone": _ZONE,
            "registrations": WHOLE,
        }
    ),
    "hosts_registrations 200": object_of({"zone": _ZONE, "registrations": WHOLE}),
    "hosts_instances 200": object_of(
        {
            "instances": list_of(_INSTANCE),
            "tags": map_of(TEXT),
            "releasing": list_of(object_of(_PLACE)),
            "consoles": list_of(object_of({"id": UUID, **_PLACE})),
            "kept": list_of(object_of(_PLACE)),
            "incarnation": TEXT,
            "start": UUID,
        }
    ),
    "hosts_claimed 200": object_of({"instances": list_of(_CLAIMED), "booked": list_of(_BOOKED)}),
}
