"""Fields that OpenStack's clients print of a server, beside a zone's own rows."""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.builders.client_rows import Rows
from tests.builders.forms import REQUEST_ID, ZONELESS, Each
from zonesched.model.openstack_time import zoneless_time

NAME = "fields"
USER_DATA = base64.b64encode(b"#cloud-config\n").decode()


def server_of_openstack(rows: Rows) -> Any:
    return {
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": rows.host["availability_zone"],
        "OS-EXT-SRV-ATTR:host": rows.host["name"],
        "OS-EXT-SRV-ATTR:hostname": NAME,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": rows.host["name"],
        "OS-EXT-SRV-ATTR:instance_name": f"{rows.server['uuid']}.{rows.server['attempt']}",
        "OS-EXT-SRV-ATTR:kernel_id": "",
        "OS-EXT-SRV-ATTR:launch_index": 0,
        "OS-EXT-SRV-ATTR:ramdisk_id": "",
        "OS-EXT-SRV-ATTR:reservation_id": rows.server["reservation_id"],
        "OS-EXT-SRV-ATTR:root_device_name": None,
        "OS-EXT-SRV-ATTR:user_data": None,
        "OS-EXT-STS:power_state": 1,
        "OS-EXT-STS:task_state": None,
        "OS-EXT-STS:vm_state": "active",
        "OS-SRV-USG:launched_at": rows.launched,
        "OS-SRV-USG:terminated_at": None,
        "accessIPv4": "192.0.2.9",
        "accessIPv6": "",
        "addresses": {},
        "config_drive": "",
        "created": rows.created,
        "description": "text",
        "flavor": dict,
        "hostId": re.compile("[0-9a-f]{56}"),
        "host_status": "UP",
        "id": rows.server["uuid"],
        "image": rows.image_text,
        "key_name": "k-fields",
        "locked": True,
        "locked_reason": "why",
        "name": NAME,
        "pinned_availability_zone": "root-rack-1",
        "progress": 100,
        "project_id": rows.server["project_id"],
        "properties": {"a": "b"},
        "security_groups": [{"name": "default"}],
        "server_groups": [rows.group["id"]],
        "status": "ACTIVE",
        "tags": ["t1", "t2"],
        "trusted_image_certificates": None,
        "updated": rows.updated,
        "user_id": rows.server["user_id"],
        "volumes_attached": [],
    }


def server_of_nova(rows: Rows) -> Any:
    return {
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": rows.host["availability_zone"],
        "OS-EXT-SRV-ATTR:host": rows.host["name"],
        "OS-EXT-SRV-ATTR:hostname": NAME,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": rows.host["name"],
        "OS-EXT-SRV-ATTR:instance_name": f"{rows.server['uuid']}.{rows.server['attempt']}",
        "OS-EXT-SRV-ATTR:kernel_id": "",
        "OS-EXT-SRV-ATTR:launch_index": "0",
        "OS-EXT-SRV-ATTR:ramdisk_id": "",
        "OS-EXT-SRV-ATTR:reservation_id": rows.server["reservation_id"],
        "OS-EXT-SRV-ATTR:root_device_name": "-",
        "OS-EXT-STS:power_state": "1",
        "OS-EXT-STS:task_state": "-",
        "OS-EXT-STS:vm_state": "active",
        "OS-SRV-USG:launched_at": rows.launched,
        "OS-SRV-USG:terminated_at": "-",
        "accessIPv4": "192.0.2.9",
        "accessIPv6": "",
        "config_drive": "",
        "created": rows.created,
        "description": "text",
        "flavor:disk": "3",
        "flavor:ephemeral": "1",
        "flavor:extra_specs": '{"a:b": "c"}',
        "flavor:original_name": "f-fields",
        "flavor:ram": "96",
        "flavor:swap": "512",
        "flavor:vcpus": "2",
        "hostId": re.compile("[0-9a-f]{56}"),
        "host_status": "UP",
        "id": rows.server["uuid"],
        "image": rows.image_text,
        "key_name": "k-fields",
        "locked": "True",
        "locked_reason": "why",
        "metadata": '{"a": "b"}',
        "name": NAME,
        "os-extended-volumes:volumes_attached": "[]",
        "pinned_availability_zone": "root-rack-1",
        "progress": "100",
        "reservation_id": rows.server["reservation_id"],
        "security_groups": "default",
        "server_groups": f'["{rows.group["id"]}"]',
        "stale": "False",
        "status": "ACTIVE",
        "tags": '["t1", "t2"]',
        "tenant_id": rows.server["project_id"],
        "trusted_image_certificates": "-",
        "updated": rows.updated,
        "user_id": rows.server["user_id"],
    }


def server_of_sdk(rows: Rows) -> Any:
    uuid = rows.server["uuid"]
    return {
        "id": uuid,
        "name": NAME,
        "links": rows.links("servers", uuid),
        "access_ipv4": "192.0.2.9",
        "availability_zone": rows.host["availability_zone"],
        "compute_host": rows.host["name"],
        "created_at": rows.created,
        "description": "text",
        "disk_config": "MANUAL",
        "flavor": {
            "id": "f-fields",
            "name": "f-fields",
            "original_name": "f-fields",
            "vcpus": 2,
            "ram": 96,
            "disk": 3,
            "ephemeral": 1,
            "swap": 512,
            "is_public": True,
            "extra_specs": {"a:b": "c"},
        },
        "host_id": re.compile("[0-9a-f]{56}"),
        "host_status": "UP",
        "hostname": NAME,
        "hypervisor_hostname": rows.host["name"],
        "image": {
            "id": rows.image["id"],
            "name": "plain",
            "properties": {"os": "linux", "links": rows.links("images", rows.image["id"])[1:]},
        },
        "instance_name": f"{uuid}.{rows.server['attempt']}",
        "is_locked": True,
        "key_name": "k-fields",
        "launch_index": 0,
        "launched_at": rows.launched,
        "locked_reason": "why",
        "metadata": {"a": "b"},
        "pinned_availability_zone": "root-rack-1",
        "power_state": 1,
        "progress": 100,
        "project_id": rows.server["project_id"],
        "reservation_id": rows.server["reservation_id"],
        "security_groups": [{"name": "default"}],
        "server_groups": [rows.group["id"]],
        "status": "ACTIVE",
        "tags": ["t1", "t2"],
        "updated_at": rows.updated,
        "user_id": rows.server["user_id"],
        "vm_state": "active",
    }


def line_of_openstack(rows: Rows) -> Any:
    return [
        {
            "ID": rows.server["uuid"],
            "Name": NAME,
            "Status": "ACTIVE",
            "Task State": None,
            "Power State": 1,
            "Networks": {},
            "Image Name": "plain",
            "Image ID": rows.image["id"],
            "Flavor": "f-fields",
            "Availability Zone": rows.host["availability_zone"],
            "Pinned Availability Zone": "root-rack-1",
            "Host": rows.host["name"],
            "Host Status": "UP",
            "Properties": {"a": "b"},
        }
    ]


def actions(rows: Rows) -> Any:
    line = {
        "Request ID": REQUEST_ID,
        "Server ID": rows.server["uuid"],
        "Start Time": ZONELESS,
        "Message": None,
        "Project ID": rows.server["project_id"],
        "User ID": rows.server["user_id"],
    }
    lines = [{**line, "Action": action} for action in ("lock", "reboot", "create")]
    lines[-1]["Start Time"] = zoneless_time(rows.server["created_at"])
    return Each(*lines)


def actions_of_nova(rows: Rows) -> Any:
    line = {"Request_ID": REQUEST_ID, "Message": "-", "Start_Time": ZONELESS, "Updated_At": ZONELESS}
    # Oldest first, as this client sorts them.
    return Each(*[{"Action": action, **line} for action in ("create", "reboot", "lock")])


def diagnostics(rows: Rows) -> Any:
    return {
        "config_drive": "False",
        "cpu_details": "[]",
        "disk_details": "[]",
        "driver": "None",
        "hypervisor": "None",
        "hypervisor_os": "None",
        "memory_details": '{"maximum": 96, "used": null}',
        "nic_details": "[]",
        "num_cpus": "2",
        "num_disks": "1",
        "num_nics": "0",
        "state": "running",
        "uptime": re.compile(r"\d+"),
    }
