"""Fields that the clients print of lists and of what surrounds a server, beside a zone's own rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.builders.client_rows import Rows
from tests.builders.forms import ZONELESS
from zonesched.model.keypair import Keypair
from zonesched.model.openstack_time import zoneless_time


def _aggregate_of_sdk(rows: Rows) -> dict[str, Any]:
    return {
        "availability_zone": "az-fields",
        "created_at": zoneless_time(rows.aggregate["created_at"]),
        "hosts": ["root-general-1"],
        "id": rows.aggregate["number"],
        "is_deleted": False,
        "metadata": {"a": "b", "availability_zone": "az-fields"},
        "name": "agg-fields",
        "updated_at": zoneless_time(rows.aggregate["updated_at"]),
        "uuid": rows.aggregate["id"],
    }


def _group_of_sdk(rows: Rows) -> dict[str, Any]:
    return {
        "id": rows.group["id"],
        "member_ids": [rows.server["uuid"]],
        "name": "g-fields",
        "policies": ["anti-affinity"],
        "policy": "anti-affinity",
        "project_id": rows.group["project_id"],
        "rules": {"max_server_per_host": 2},
        "user_id": rows.group["user_id"],
    }


def service_of_sdk(rows: Rows) -> dict[str, Any]:
    return {
        "availability_zone": rows.host["availability_zone"],
        "binary": "nova-compute",
        "host": rows.host["name"],
        "id": rows.host["id"],
        "is_forced_down": False,
        "name": "nova-compute",
        "state": "up",
        "status": "enabled",
        "updated_at": ZONELESS,
    }


def _diagnostics_of_sdk(rows: Rows) -> dict[str, Any]:
    return {
        "has_config_drive": False,
        "memory_details": {"maximum": rows.flavor["ram_mb"]},
        "num_cpus": rows.flavor["vcpus"],
        "num_disks": 1,
        "num_nics": 0,
        "state": "running",
        "uptime": int,
    }


def _hypervisor_of_openstack(rows: Rows) -> dict[str, Any]:
    return {
        "aggregates": [],
        "cpu_info": {},
        "host_ip": rows.host["address"],
        "hypervisor_hostname": rows.host["name"],
        "hypervisor_type": "",
        "hypervisor_version": 0,
        "id": rows.host["id"],
        "service_host": rows.host["name"],
        "service_id": rows.host["id"],
        "state": "up",
        "status": "enabled",
    }


def _flavor_line_of_openstack(rows: Rows) -> dict[str, Any]:
    return {
        "ID": rows.flavor["id"],
        "Name": "f-fields",
        "RAM": rows.flavor["ram_mb"],
        "Disk": rows.flavor["disk_gb"],
        "Ephemeral": rows.flavor["ephemeral_gb"],
        "VCPUs": rows.flavor["vcpus"],
        "Is Public": True,
        "Swap": rows.flavor["swap_mb"],
        "RXTX Factor": 1.0,
        "Properties": {"a:b": "c"},
    }


def _image_line_of_openstack(rows: Rows) -> dict[str, Any]:
    return {
        "ID": rows.image["id"],
        "Name": "plain",
        "Disk Format": "raw",
        "Container Format": "bare",
        "Size": 0,
        "Status": "active",
        "Visibility": "public",
        "Protected": False,
        **dict.fromkeys(("Checksum", "Project", "Hash Algorithm", "Hash Value")),
        "Tags": [],
    }


def _aggregate_line_of_nova(rows: Rows) -> dict[str, Any]:
    return {
        "Id": str(rows.aggregate["number"]),
        "Name": "agg-fields",
        "Availability Zone": "az-fields",
        "UUID": rows.aggregate["id"],
    }


def _group_line_of_nova(rows: Rows) -> dict[str, Any]:
    return {
        "Id": rows.group["id"],
        "Name": "g-fields",
        "Project Id": rows.group["project_id"],
        "User Id": rows.group["user_id"],
        "Policy": "anti-affinity",
        "Rules": "{'max_server_per_host': 2}",
        "Members": f"['{rows.server['uuid']}']",
    }


def _service_line_of_nova(rows: Rows) -> dict[str, Any]:
    return {
        "Id": rows.host["id"],
        "Binary": "nova-compute",
        "Host": rows.host["name"],
        "Zone": rows.host["availability_zone"],
        "Status": "enabled",
        "State": "up",
        "Updated_at": ZONELESS,
        "Disabled Reason": "-",
        "Forced down": "False",
    }


def _keypair_of_nova(rows: Rows) -> dict[str, Any]:
    return {
        "created_at": zoneless_time(rows.keypair["created_at"]),
        "deleted": "False",
        "deleted_at": "-",
        "fingerprint": rows.keypair["fingerprint"],
        "id": str(Keypair(**rows.keypair).number),
        "name": "k-fields",
        "type": "ssh",
        "updated_at": "-",
        "user_id": rows.server["user_id"],
    }


CATALOG_FIELDS: Mapping[str, Callable[[Rows], Any]] = {
    "openstack aggregate list --long": lambda rows: [
        {
            "ID": rows.aggregate["number"],
            "UUID": rows.aggregate["id"],
            "Name": "agg-fields",
            "Availability Zone": "az-fields",
            "Properties": {"a": "b"},
            "Hosts": ["root-general-1"],
        }
    ],
    "openstack flavor list --long": lambda rows: [_flavor_line_of_openstack(rows)],
    "openstack hypervisor show {host}": _hypervisor_of_openstack,
    "openstack image list --long": lambda rows: [_image_line_of_openstack(rows)],
    "openstack server group list --long": lambda rows: [
        {
            "ID": rows.group["id"],
            "Name": "g-fields",
            "Policy": "anti-affinity",
            "Members": [rows.server["uuid"]],
            "Project Id": rows.group["project_id"],
            "User Id": rows.group["user_id"],
        }
    ],
    "nova aggregate-list": lambda rows: [_aggregate_line_of_nova(rows)],
    "nova aggregate-show agg-fields": lambda rows: [
        {
            **_aggregate_line_of_nova(rows),
            "Hosts": "'root-general-1'",
            "Metadata": "'a=b', 'availability_zone=az-fields'",
        }
    ],
    "nova hypervisor-uptime {host}": lambda rows: {
        "hypervisor_hostname": rows.host["name"],
        "id": rows.host["id"],
        "state": "up",
        "status": "enabled",
        "uptime": "-",
    },
    "nova interface-list fields": lambda rows: [],
    "nova keypair-show k-fields": _keypair_of_nova,
    "nova list-secgroup fields": lambda rows: [{"Id": "default", "Name": "default", "Description": ""}],
    "nova migration-list": lambda rows: [],
    "nova server-group-list": lambda rows: [_group_line_of_nova(rows)],
    "nova server-topology fields": lambda rows: {"nodes": "[]", "pagesize_kb": "None"},
    "nova service-list --host {host}": lambda rows: [_service_line_of_nova(rows)],
    "nova volume-attachments fields": lambda rows: [],
    "sdk aggregates [[], {{}}]": lambda rows: [_aggregate_of_sdk(rows)],
    "sdk availability_zones [[], {{}}]": lambda rows: [
        {"name": name, "state": {"available": True}} for name in ("az-fields", "leaf-rack-1", "root-rack-1")
    ],
    'sdk fetch_server_security_groups [["{server}"], {{}}]': lambda rows: {
        "id": rows.server["uuid"],
        "security_groups": [
            {
                "id": "default",
                "name": "default",
                "tenant_id": rows.server["project_id"],
            }
        ],
    },
    'sdk find_aggregate [["agg-fields"], {{}}]': _aggregate_of_sdk,
    'sdk find_server_group [["g-fields"], {{}}]': _group_of_sdk,
    'sdk get_image_metadata [["{image}"], {{}}]': lambda rows: {
        "id": rows.image["id"],
        "metadata": {"os": "linux"},
    },
    'sdk get_server_diagnostics [["{server}"], {{}}]': _diagnostics_of_sdk,
    'sdk get_server_group [["{group}"], {{}}]': _group_of_sdk,
    'sdk get_server_metadata [["{server}"], {{}}]': lambda rows: {
        "id": rows.server["uuid"],
        "metadata": {"a": "b"},
    },
    "sdk migrations [[], {{}}]": lambda rows: [],
    "sdk server_groups [[], {{}}]": lambda rows: [_group_of_sdk(rows)],
    'sdk services [[], {{"host": "{host}", "binary": "nova-compute"}}]': lambda rows: [service_of_sdk(rows)],
    'sdk volume_attachments [["{server}"], {{}}]': lambda rows: [],
}
"""Command lines with what they print, as `client_fields.FIELDS`."""
