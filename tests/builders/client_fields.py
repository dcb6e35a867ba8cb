"""Fields that OpenStack's clients print of one server and its surroundings, beside a zone's own rows.

Fields of openstacksdk that are empty are left out; the other clients' are all there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.builders.client_catalog_fields import CATALOG_FIELDS
from tests.builders.client_list_fields import LIST_FIELDS, hypervisor_of_sdk
from tests.builders.client_rows import Rows
from tests.builders.client_server_fields import (
    NAME,
    actions,
    actions_of_nova,
    diagnostics,
    line_of_openstack,
    server_of_nova,
    server_of_openstack,
    server_of_sdk,
)
from tests.builders.forms import UUID, ZONELESS, Each
from zonesched.model.openstack_time import iso_time, zoneless_time

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIR8NN31+uZVnUHOsErnpvtav8YLp4KkCLaIRa00BkHY x@y"

Expected = Callable[[Rows], Any]


def _flavor_of_openstack(rows: Rows) -> Any:
    return {
        "OS-FLV-DISABLED:disabled": False,
        "OS-FLV-EXT-DATA:ephemeral": rows.flavor["ephemeral_gb"],
        "access_project_ids": None,
        "description": rows.flavor["description"],
        "disk": rows.flavor["disk_gb"],
        "id": rows.flavor["id"],
        "name": "f-fields",
        "os-flavor-access:is_public": True,
        "properties": {"a:b": "c"},
        "ram": rows.flavor["ram_mb"],
        "rxtx_factor": 1.0,
        "swap": rows.flavor["swap_mb"],
        "vcpus": rows.flavor["vcpus"],
    }


def _flavor_of_nova(rows: Rows) -> Any:
    return {
        "OS-FLV-DISABLED:disabled": "False",
        "OS-FLV-EXT-DATA:ephemeral": "1",
        "description": "words",
        "disk": "3",
        "extra_specs": '{"a:b": "c"}',
        "id": rows.flavor["id"],
        "name": "f-fields",
        "os-flavor-access:is_public": "True",
        "ram": "96",
        "rxtx_factor": "1.0",
        "swap": "512",
        "vcpus": "2",
    }


def _flavor_of_sdk(rows: Rows) -> Any:
    return {
        "id": rows.flavor["id"],
        "name": "f-fields",
        "description": "words",
        "vcpus": 2,
        "ram": 96,
        "disk": 3,
        "ephemeral": 1,
        "swap": 512,
        "is_public": True,
        "is_disabled": False,
        "rxtx_factor": 1.0,
        "extra_specs": {"a:b": "c"},
    }


def _listed_of_sdk(rows: Rows) -> Any:
    """The same value as in a list, which has no groups."""
    return {name: value for name, value in server_of_sdk(rows).items() if name != "server_groups"}


def _service_of_openstack(rows: Rows) -> Any:
    return [
        {
            "ID": rows.host["id"],
            "Binary": "nova-compute",
            "Host": rows.host["name"],
            "Zone": rows.host["availability_zone"],
            "Status": "enabled",
            "State": "up",
            "Updated At": ZONELESS,
            "Disabled Reason": None,
            "Forced Down": False,
        }
    ]


def _keypair(rows: Rows) -> dict[str, Any]:
    return {
        "created_at": zoneless_time(rows.keypair["created_at"]),
        "fingerprint": rows.keypair["fingerprint"],
        "id": "k-fields",
        "is_deleted": False,
        "name": "k-fields",
        "type": "ssh",
        "user_id": rows.server["user_id"],
    }


def _group(rows: Rows) -> dict[str, Any]:
    return {
        "id": rows.group["id"],
        "members": [rows.server["uuid"]],
        "name": "g-fields",
        "policy": "anti-affinity",
        "project_id": rows.group["project_id"],
        "rules": {"max_server_per_host": 2},
        "user_id": rows.group["user_id"],
    }


def _aggregate(rows: Rows) -> dict[str, Any]:
    return {
        "availability_zone": "az-fields",
        "created_at": zoneless_time(rows.aggregate["created_at"]),
        "deleted_at": None,
        "hosts": ["root-general-1"],
        "id": rows.aggregate["number"],
        "is_deleted": False,
        "name": "agg-fields",
        "properties": {"a": "b"},
        "updated_at": zoneless_time(rows.aggregate["updated_at"]),
        "uuid": rows.aggregate["id"],
    }


def _quotas(rows: Rows) -> Any:
    return {
        "id": rows.server["project_id"],
        "instances": 1_000_000,
        "cores": -1,
        "ram": -1,
        "key_pairs": 100,
        "metadata_items": 128,
        "server_groups": 1000,
        "server_group_members": -1,
        # openstacksdk asks in a version that still has the quotas of files.
        **dict.fromkeys(("injected_file_content_bytes", "injected_file_path_bytes", "injected_files"), 0),
    }


def _image(rows: Rows) -> Any:
    return {
        "id": rows.image["id"],
        "name": "plain",
        "links": rows.links("images", rows.image["id"]),
        "created_at": iso_time(rows.image["created_at"]),
        "updated_at": iso_time(rows.image["created_at"]),
        "metadata": {"os": "linux"},
        "min_disk": rows.image["min_disk_gb"],
        "min_ram": rows.image["min_ram_mb"],
        "progress": 100,
        "size": 0,
        "status": "ACTIVE",
    }


def _image_of_openstack(rows: Rows) -> Any:
    id = rows.image["id"]
    return {
        "container_format": "bare",
        "created_at": iso_time(rows.image["created_at"]),
        "disk_format": "raw",
        "file": f"/v2/images/{id}/file",
        "id": id,
        "min_disk": rows.image["min_disk_gb"],
        "min_ram": rows.image["min_ram_mb"],
        "name": "plain",
        "properties": {"os_hidden": False, "os": "linux"},
        "protected": False,
        "schema": "/v2/schemas/image",
        "size": 0,
        "status": "active",
        "tags": [],
        "updated_at": iso_time(rows.image["created_at"]),
        "visibility": "public",
    }


LIMITED = {"instances": 1_000_000, "cores": -1, "ram": -1, "key-pairs": 100, "properties": 128}


def _quotas_of_openstack(rows: Rows) -> Any:
    """Make a line for each quota; null are those that a zone does not have."""
    others = ("fixed_ips", "floating_ips", "injected_file_content_bytes", "injected_file_path_bytes")
    more = ("injected_files", "networks", "security_group_rules", "security_groups")
    limits: dict[str, int | None] = {
        **{name: LIMITED[name] for name in ("instances", "cores", "ram")},
        **dict.fromkeys((*others, *more)),
        **{name: LIMITED[name] for name in ("key-pairs", "properties")},
        "server-group-members": -1,
        "server-groups": 1000,
    }
    return Each(*[{"Resource": name, "Limit": limit} for name, limit in limits.items()])


def _quotas_of_nova(rows: Rows) -> Any:
    limits = {
        **{name: LIMITED[name] for name in ("instances", "cores", "ram")},
        "metadata_items": 128,
        "key_pairs": 100,
        "server_groups": 1000,
        "server_group_members": -1,
    }
    return Each(*[{"Quota": name, "Limit": str(limit)} for name, limit in limits.items()])


def _flavor_line_of_nova(rows: Rows) -> Any:
    return {
        "ID": rows.flavor["id"],
        "Name": "f-fields",
        "Memory_MiB": "96",
        "Disk": "3",
        "Ephemeral": "1",
        "Swap": "512",
        "VCPUs": "2",
        "RXTX_Factor": "1.0",
        "Is_Public": "True",
        "extra_specs": "{'a:b': 'c'}",
        "Description": "words",
    }


def _usage(rows: Rows) -> Any:
    """Make the usage of the one server; its local disk is the root disk and the ephemeral one."""
    line = {
        "flavor": "f-fields",
        "hours": float,
        "instance_id": rows.server["uuid"],
        "local_gb": rows.flavor["disk_gb"] + rows.flavor["ephemeral_gb"],
        "memory_mb": rows.flavor["ram_mb"],
        "name": NAME,
        "project_id": rows.server["project_id"],
        "started_at": zoneless_time(rows.server["created_at"]),
        "state": "active",
        "uptime": int,
        "vcpus": rows.flavor["vcpus"],
    }
    totals = ("total_hours", "total_vcpus_usage", "total_memory_mb_usage", "total_local_gb_usage")
    return {
        "id": rows.server["project_id"],
        "project_id": rows.server["project_id"],
        "start": ZONELESS,
        "stop": ZONELESS,
        **dict.fromkeys(totals, float),
        "server_usages": [line],
    }


FIELDS: Mapping[str, Expected] = {
    **CATALOG_FIELDS,
    **LIST_FIELDS,
    "openstack server show {server}": server_of_openstack,
    "openstack server list --long --name ^fields$": line_of_openstack,
    "openstack server event list --long fields": actions,
    "openstack server group show g-fields": _group,
    "openstack server volume list fields": lambda rows: [],
    "openstack server migration list --server fields": lambda rows: [],
    "openstack flavor show f-fields": _flavor_of_openstack,
    "openstack keypair show k-fields": lambda rows: {**_keypair(rows), "private_key": None},
    "openstack keypair list": lambda rows: [
        {"Name": "k-fields", "Fingerprint": rows.keypair["fingerprint"], "Type": "ssh"}
    ],
    "openstack aggregate show agg-fields": _aggregate,
    "openstack hypervisor list --matching general-1": lambda rows: [
        {
            "ID": UUID,
            "Hypervisor Hostname": "root-general-1",
            "Hypervisor Type": "",
            "Host IP": "192.0.2.1",
            "State": "up",
        }
    ],
    "openstack compute service list --long --host {host}": _service_of_openstack,
    "openstack project show {project}": lambda rows: {
        "id": rows.server["project_id"],
        "name": rows.server["project_id"],
        "domain_id": "default",
        "parent_id": "default",
        "is_domain": False,
        "enabled": True,
        "description": "",
        "tags": [],
        "options": {},
    },
    "openstack availability zone list --compute": lambda rows: [
        {"Zone Name": name, "Zone Status": "available"}
        for name in ("az-fields", "leaf-rack-1", "root-rack-1")
    ],
    "openstack image show plain": _image_of_openstack,
    "openstack quota show --compute {project}": _quotas_of_openstack,
    "nova show fields": server_of_nova,
    "nova quota-show --tenant {project}": _quotas_of_nova,
    "nova instance-action-list fields": actions_of_nova,
    "nova flavor-list --extra-specs": lambda rows: [_flavor_line_of_nova(rows)],
    "nova list --name ^fields$": lambda rows: [
        {
            "ID": rows.server["uuid"],
            "Name": NAME,
            "Status": "ACTIVE",
            "Task State": "-",
            "Power State": "Running",
            "Networks": "",
        }
    ],
    "nova flavor-show f-fields": _flavor_of_nova,
    "nova diagnostics fields": diagnostics,
    "nova server-tag-list fields": lambda rows: [{"Tag": "t1"}, {"Tag": "t2"}],
    "nova keypair-list": lambda rows: [
        {"Name": "k-fields", "Type": "ssh", "Fingerprint": rows.keypair["fingerprint"]}
    ],
    "nova server-group-get {group}": lambda rows: [
        {
            "Id": rows.group["id"],
            "Name": "g-fields",
            "Project Id": rows.group["project_id"],
            "User Id": rows.group["user_id"],
            "Policy": "anti-affinity",
            "Rules": "{'max_server_per_host': 2}",
            "Members": f"['{rows.server['uuid']}']",
        }
    ],
    'sdk find_flavor [["f-fields"], {{}}]': _flavor_of_sdk,
    'sdk find_hypervisor [["{host}"], {{}}]': hypervisor_of_sdk,
    'sdk find_keypair [["k-fields"], {{}}]': lambda rows: {**_keypair(rows), "public_key": KEY},
    'sdk find_server [["fields"], {{}}]': _listed_of_sdk,
    'sdk get_quota_set [["{project}"], {{}}]': _quotas,
    'sdk get_server [["{server}"], {{}}]': server_of_sdk,
    "sdk images [[], {{}}]": lambda rows: [_image(rows)],
    'sdk servers [[], {{"name": "^fields$"}}]': lambda rows: [_listed_of_sdk(rows)],
    'sdk get_flavor [["{flavor}"], {{}}]': _flavor_of_sdk,
    'sdk get_hypervisor [["{host_id}"], {{}}]': hypervisor_of_sdk,
    'sdk get_keypair [["k-fields"], {{}}]': lambda rows: {**_keypair(rows), "public_key": KEY},
    'sdk get_image [["{image}"], {{}}]': _image,
    'sdk get_quota_set_defaults [["{project}"], {{}}]': _quotas,
    'sdk get_usage [["{project}"], {{}}]': _usage,
    'sdk server_interfaces [["{server}"], {{}}]': lambda rows: [],
    'sdk server_migrations [["{server}"], {{}}]': lambda rows: [],
}
"""Command lines with what they print. A line of `sdk` has its method's arguments as JSON."""

MAKE = (
    f"openstack keypair create --public-key {{key}} k-{NAME}",
    "openstack aggregate create --zone az-fields --property a=b agg-fields",
    "openstack aggregate add host agg-fields root-general-1",
    "openstack flavor create --vcpus 2 --ram 96 --disk 3 --ephemeral 1 --swap 512 --property a:b=c"
    " --description words f-fields",
    "openstack server group create --policy anti-affinity --rule max_server_per_host=2 g-fields",
)
"""Command lines that make what the others show."""
BOOT = (
    "openstack server create --flavor f-fields --image plain --no-network --availability-zone root-rack-1"
    " --key-name k-fields --property a=b --tag t1 --tag t2 --description text"
    " --user-data {data} --hint group={group} --wait fields"
)
THEN = (
    'sdk update_server [["{server}"], {{"access_ipv4": "192.0.2.9"}}]',
    "openstack server reboot --hard --wait fields",
    "openstack server lock --reason why fields",
)
"""Actions on the server before it is shown."""
