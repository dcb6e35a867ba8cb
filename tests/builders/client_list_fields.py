"""Fields that the clients print of hosts, limits, usage and versions, beside a zone's own rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.builders.client_catalog_fields import service_of_sdk
from tests.builders.client_rows import Rows
from tests.builders.forms import REQUEST_ID, TIME, ZONELESS, Each
from zonesched.api.extensions import EXTENSIONS
from zonesched.api.microversion import NEWEST, OLDEST
from zonesched.model.openstack_time import zoneless_time

SIZES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "local_gb"}
RATES = (("/servers", 60000), ("/zones/boot", 600))
HOURS = re.compile(r"\d+\.\d\d")
INSTANCES, KEY_PAIRS, ITEMS = 1_000_000, 100, 128
"""Limits of a zone without settings of its own."""


def of_each_host(rows: Rows, form: Callable[[Rows], Any], order: str = "id") -> Any:
    """Make the form of a list of all hosts from that of one."""
    hosts = sorted(rows.hosts, key=lambda one: str(one[0][order]))
    return Each(*[form(replace(rows, host=host, inventory=inventory)) for host, inventory in hosts])


def hypervisor_of_sdk(rows: Rows) -> dict[str, Any]:
    """Amounts are the effective inventory's, and what its claims take."""
    vcpu, ram, disk = (rows.inventory[name] for name in ("VCPU", "MEMORY_MB", "DISK_GB"))
    return {
        "id": rows.host["id"],
        "name": rows.host["name"],
        "host_ip": rows.host["address"],
        "hypervisor_version": 0,
        "service_details": {"id": rows.host["id"], "host": rows.host["name"]},
        "state": "up",
        "status": "enabled",
        "running_vms": int,
        "vcpus": vcpu["total"],
        "vcpus_used": vcpu["used"],
        "memory_size": ram["total"],
        "memory_used": ram["used"],
        "memory_free": ram["capacity"] - ram["used"],
        "local_disk_size": disk["total"],
        "local_disk_used": disk["used"],
        "local_disk_free": disk["capacity"] - disk["used"],
    }


def _actions_of_sdk(rows: Rows) -> Any:
    line = {
        "request_id": REQUEST_ID,
        "id": REQUEST_ID,
        "user_id": rows.server["user_id"],
        "project_id": rows.server["project_id"],
        "start_time": ZONELESS,
    }
    return Each(*[{"action": action, **line} for action in ("lock", "reboot", "create")])


def _event_of_openstack(rows: Rows) -> Any:
    begun, ended = (zoneless_time(rows.action[name]) for name in ("started_at", "finished_at"))
    return {
        "action": "reboot",
        "events": [
            {
                "details": None,
                "event": "compute_reboot_instance",
                "finish_time": ended,
                "host": None,
                "host_id": "",
                "result": "Success",
                "start_time": begun,
                "traceback": None,
            }
        ],
        "id": rows.action["request_id"],
        "message": None,
        "project_id": rows.action["project_id"],
        "request_id": rows.action["request_id"],
        "start_time": begun,
        "user_id": rows.action["user_id"],
    }


def _event_of_nova(rows: Rows) -> Any:
    begun, ended = (zoneless_time(rows.action[name]) for name in ("started_at", "finished_at"))
    return {
        "action": "reboot",
        "error_code": "",
        "events": "[{'details': None,",
        # Lines of the event, which this client breaks.
        "": "'traceback': None}]",
        "finish_time": ended,
        "instance_uuid": rows.server["uuid"],
        "message": "-",
        "project_id": rows.action["project_id"],
        "request_id": rows.action["request_id"],
        "result": "done",
        "start_time": begun,
        "updated_at": ended,
        "user_id": rows.action["user_id"],
    }


def _limits_of_sdk(rows: Rows) -> Any:
    """Make the limits, which openstacksdk has under two names each."""
    used = {"cores": rows.flavor["vcpus"], "instances": 1, "server_groups": 1}
    limits = {"cores": -1, "instances": INSTANCES, "server_groups": 1000}
    absolute: dict[str, int] = {
        **{f"{name}_used": count for name, count in used.items() if name != "cores"},
        **{f"total_{name}_used": count for name, count in used.items()},
        **{name: limit for name, limit in limits.items() if name != "cores"},
        "total_cores": -1,
        "max_total_cores": -1,
        "max_total_instances": INSTANCES,
        "max_server_groups": 1000,
        "total_ram": -1,
        "max_total_ram_size": -1,
        "total_ram_used": rows.flavor["ram_mb"],
        "keypairs": KEY_PAIRS,
        "max_total_keypairs": KEY_PAIRS,
        **dict.fromkeys(("server_meta", "max_server_meta", "image_meta", "max_image_meta"), ITEMS),
        **dict.fromkeys(("server_group_members", "max_server_group_members"), -1),
        # openstacksdk asks in a version that still has the limits of networks and files.
        **dict.fromkeys(("personality", "personality_size", "security_groups_used", "floating_ips_used"), 0),
        **dict.fromkeys(("total_security_groups_used", "total_floating_ips_used"), 0),
        **dict.fromkeys(("security_group_rules", "max_security_group_rules", "security_groups"), -1),
        **dict.fromkeys(("max_security_groups", "floating_ips", "max_total_floating_ips"), -1),
    }
    rates = [
        {
            "limits": [
                {"next_available": TIME, "remaining": int, "unit": "MINUTE", "value": value, "verb": "POST"}
            ],
            "name": str,
            "regex": f"^{uri}$",
            "uri": uri,
        }
        for uri, value in RATES
    ]
    return {"absolute": absolute, "rate": Each(*rates)}


def _extension_of_sdk(alias: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "id": alias,
        "name": EXTENSIONS[alias],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated_at": "2014-12-03T00:00:00Z",
    }


def _usages(rows: Rows) -> Any:
    totals = ("total_hours", "total_vcpus_usage", "total_memory_mb_usage", "total_local_gb_usage")
    line = {"project_id": rows.server["project_id"], "start": ZONELESS, "stop": ZONELESS}
    return [{**line, **dict.fromkeys(totals, float)}]


def _quota_class(rows: Rows) -> Any:
    return {
        "id": "default",
        "instances": INSTANCES,
        **dict.fromkeys(("cores", "ram", "server_group_members"), -1),
        "server_groups": 1000,
        "key_pairs": KEY_PAIRS,
        "metadata_items": ITEMS,
        **dict.fromkeys(("injected_file_content_bytes", "injected_file_path_bytes", "injected_files"), 0),
    }


def _quotas_of_nova(rows: Rows) -> Any:
    limits = {
        "instances": INSTANCES,
        "cores": -1,
        "ram": -1,
        "metadata_items": ITEMS,
        "key_pairs": KEY_PAIRS,
        "server_groups": 1000,
        "server_group_members": -1,
    }
    return Each(*[{"Quota": name, "Limit": str(limit)} for name, limit in limits.items()])


def _statistics(rows: Rows) -> dict[str, Any]:
    """Sum up the inventories of all hosts."""

    def total(name: str, column: str) -> int:
        return sum(int(inventory[name][column]) for _, inventory in rows.hosts)

    sums = {member: total(name, "total") for name, member in SIZES.items()}
    used = {f"{member}_used": total(name, "used") for name, member in SIZES.items()}
    return {
        "count": len(rows.hosts),
        "current_workload": 0,
        "disk_available_least": 0,
        "free_disk_gb": total("DISK_GB", "capacity") - total("DISK_GB", "used"),
        "free_ram_mb": total("MEMORY_MB", "capacity") - total("MEMORY_MB", "used"),
        "running_vms": 1,
        **sums,
        **used,
    }


def _amounts(rows: Rows, column: str) -> dict[str, Any]:
    titles = {"CPU": "VCPU", "Memory MB": "MEMORY_MB", "Disk GB": "DISK_GB"}
    return {title: rows.inventory[name][column] for title, name in titles.items()}


def _host_of_openstack(rows: Rows) -> Any:
    host = {"Host": rows.host["name"]}
    return Each(
        {**host, "Project": "(total)", **_amounts(rows, "total")},
        {**host, "Project": "(used_now)", **_amounts(rows, "used")},
    )


def _audit_log(rows: Rows) -> Any:
    hosts = sorted(host["name"] for host, _ in rows.hosts)
    begin_or_end = re.compile(r"\d{4}-\d\d-01 00:00:00")
    return {
        "hosts_not_run": str(hosts),
        "log": "{}",
        "num_hosts": str(len(hosts)),
        "num_hosts_done": "0",
        "num_hosts_not_run": str(len(hosts)),
        "num_hosts_running": "0",
        "overall_status": f"0 of {len(hosts)} hosts done. 0 errors.",
        "period_beginning": begin_or_end,
        "period_ending": begin_or_end,
        "total_errors": "0",
        "total_instances": "0",
    }


def _limits_of_nova(rows: Rows) -> Any:
    """Make the rates, and then the limits with what is used of them; those of a zone alone come last."""
    rates = [
        {
            "Verb": "POST",
            "URI": uri,
            "Value": str(value),
            "Remain": re.compile(r"\d+"),
            "Unit": "MINUTE",
            "Next_Available": TIME,
        }
        for uri, value in RATES
    ]
    known = {
        "Cores": (rows.flavor["vcpus"], -1),
        "Instances": (1, INSTANCES),
        "Keypairs": ("-", KEY_PAIRS),
        "RAM": (rows.flavor["ram_mb"], -1),
        "Server Meta": ("-", ITEMS),
        "ServerGroupMembers": ("-", -1),
        "ServerGroups": (1, 1000),
    }
    own = {
        "max_instances_per_request": 10_000,
        "project_instances": INSTANCES,
        "project_instances_used": 1,
        "project_open_boots": 5000,
        "project_open_boots_used": 0,
    }
    lines = [(name, str(used), str(most), "-") for name, (used, most) in known.items()]
    lines += [(name, "-", "-", str(value)) for name, value in own.items()]
    titles = ("Name", "Used", "Max", "Other")
    return Each(*rates, *[dict(zip(titles, line, strict=True)) for line in lines])


def _hypervisor_of_nova(rows: Rows) -> dict[str, Any]:
    """Make the texts of the host, and for each of its resource classes those of its inventory."""
    found: dict[str, Any] = {
        "agent": rows.service["name"],
        "aggregates": "[]",
        "availability_zone": rows.host["availability_zone"],
        "capabilities_kind": str,
        "host_ip": rows.host["address"],
        "hypervisor_hostname": rows.host["name"],
        "hypervisor_type": "",
        "hypervisor_version": "0",
        "id": rows.host["id"],
        "running_vms": "1",
        "service_disabled_reason": "None",
        "service_host": rows.host["name"],
        "service_id": rows.host["id"],
        "state": "up",
        "status": "enabled",
        "traits": str,
        # The second line of the traits, which this client breaks.
        "": str,
        "uptime": "None",
    }
    for name, free in (("MEMORY_MB", "free_ram_mb"), ("DISK_GB", "free_disk_gb")):
        found[free] = str(rows.inventory[name]["capacity"] - rows.inventory[name]["used"])
    for name, inventory in rows.inventory.items():
        if name in SIZES:
            found[SIZES[name]] = str(inventory["total"])
            found[f"{SIZES[name]}_used"] = str(inventory["used"])
        for column in ("agent_excess", "allocation_ratio", "capacity", "reserved", "total", "used"):
            found[f"resources_{name}_{column}"] = str(inventory[column])
        found[f"resources_{name}_reported_allocation_ratio"] = str(inventory["reported_ratio"])
        found[f"resources_{name}_reported_reserved"] = str(inventory["reported_reserved"])
        found[f"resources_{name}_set"] = "{}"
    return found


def _usage_of_openstack(rows: Rows) -> dict[str, Any]:
    """Make the usage of the one server; its local disk is the root disk and the ephemeral one."""
    server = {
        "hours": float,
        "flavor": "f-fields",
        "instance_id": rows.server["uuid"],
        "name": rows.server["name"],
        "project_id": rows.server["project_id"],
        "memory_mb": rows.flavor["ram_mb"],
        "local_gb": rows.flavor["disk_gb"] + rows.flavor["ephemeral_gb"],
        "vcpus": rows.flavor["vcpus"],
        "started_at": zoneless_time(rows.server["created_at"]),
        "ended_at": None,
        "state": "active",
        "uptime": int,
        **dict.fromkeys(("id", "location")),
    }
    amounts = ("RAM MB-Hours", "CPU Hours", "Disk GB-Hours")
    return {"Project": rows.server["project_id"], "Servers": [server], **dict.fromkeys(amounts, float)}


LIST_FIELDS: Mapping[str, Callable[[Rows], Any]] = {
    'sdk server_actions [["{server}"], {{}}]': _actions_of_sdk,
    'sdk find_image [["plain"], {{}}]': lambda rows: {
        "id": rows.image["id"],
        "name": "plain",
        "links": rows.links("images", rows.image["id"]),
    },
    'sdk find_extension [["os-keypairs"], {{}}]': lambda rows: _extension_of_sdk("os-keypairs"),
    "sdk extensions [[], {{}}]": lambda rows: Each(*map(_extension_of_sdk, EXTENSIONS)),
    'sdk hypervisors [[], {{"details": true}}]': lambda rows: of_each_host(rows, hypervisor_of_sdk),
    'sdk find_service [["{host_id}"], {{}}]': service_of_sdk,
    "sdk get_limits [[], {{}}]": _limits_of_sdk,
    "sdk usages [[], {{}}]": _usages,
    'sdk get_server_console_output [["{server}"], {{}}]': lambda rows: {
        "output": f"instance {rows.server['uuid']}\nrebuilds 0\npower running\n"
    },
    'sdk get_server_password [["{server}"], {{}}]': lambda rows: "",
    'sdk server_ips [["{server}"], {{}}]': lambda rows: [],
    'sdk share_attachments [["{server}"], {{}}]': lambda rows: [],
    'sdk get_quota_class_set [["default"], {{}}]': _quota_class,
    "openstack@2.1 host list": lambda rows: of_each_host(
        rows,
        lambda rows: {"Host Name": rows.host["name"], "Service": "compute", "Zone": rows.zone_of_host},
        "name",
    ),
    "openstack@2.1 host show {host}": _host_of_openstack,
    "openstack@2.87 hypervisor stats show": _statistics,
    "openstack server event show fields {request}": _event_of_openstack,
    "openstack server share list fields": lambda rows: [],
    "openstack project list": lambda rows: [
        {"ID": rows.server["project_id"], "Name": rows.server["project_id"]}
    ],
    "nova hypervisor-list": lambda rows: of_each_host(
        rows,
        lambda rows: {
            "ID": rows.host["id"],
            "Hypervisor hostname": rows.host["name"],
            "State": "up",
            "Status": "enabled",
        },
    ),
    "nova hypervisor-servers {host}": lambda rows: [
        {
            "ID": rows.server["uuid"],
            "Name": rows.server["name"],
            "Hypervisor ID": rows.host["id"],
            "Hypervisor Hostname": rows.host["name"],
        }
    ],
    "nova@2.87 hypervisor-stats": lambda rows: {
        name: str(value) for name, value in _statistics(rows).items()
    },
    "nova limits": _limits_of_nova,
    "nova hypervisor-show {host}": _hypervisor_of_nova,
    "openstack usage show --project {project}": _usage_of_openstack,
    "openstack usage list": lambda rows: [_usage_of_openstack(rows)],
    "nova instance-action fields {request}": _event_of_nova,
    "nova instance-usage-audit-log": _audit_log,
    "nova quota-class-show default": _quotas_of_nova,
    "nova quota-defaults --tenant {project}": _quotas_of_nova,
    "nova server-migration-list fields": lambda rows: [],
    "nova usage --tenant {project}": lambda rows: [
        {"Servers": "1", "RAM MiB-Hours": HOURS, "CPU Hours": HOURS, "Disk GiB-Hours": HOURS}
    ],
    "nova usage-list": lambda rows: [
        {
            "Tenant ID": rows.server["project_id"],
            "Servers": "1",
            "RAM MiB-Hours": HOURS,
            "CPU Hours": HOURS,
            "Disk GiB-Hours": HOURS,
        }
    ],
    "nova version-list": lambda rows: [
        {
            "Id": "v2.1",
            "Status": "CURRENT",
            "Updated": "2013-07-23T11:33:21Z",
            "Min Version": str(OLDEST),
            "Version": str(NEWEST),
        }
    ],
    "nova host-evacuate root-gpu-4": lambda rows: [],
    "nova host-evacuate-live root-gpu-4": lambda rows: [],
    "nova host-servers-migrate root-gpu-4": lambda rows: [],
}
"""Command lines with what they print, as `client_fields.FIELDS`."""
