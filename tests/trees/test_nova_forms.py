"""Answers in Nova's documented form at each microversion: members, types, null or missing, times and links.

Lists of members are those of OpenStack's Compute API reference; members that a zone adds or lacks are named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.forms import (
    FINGERPRINT,
    HOST_ID,
    REQUEST_ID,
    TIME,
    UUID,
    ZONELESS,
    links_to,
    mismatches,
    or_null,
)
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Node, Tree, a_host

LARGER = {"flavor": {"name": "larger", "vcpus": 2, "ram": 1024, "disk": 20}}
IMAGE = {"image": {"name": "plain", "properties": {"os": "linux"}}}
VERSIONS = (1, 3, 9, 16, 19, 26, 47, 63, 71, 73, 75, 90, 96, 98)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIR8NN31+uZVnUHOsErnpvtav8YLp4KkCLaIRa00BkHY x@y"


def server_form(minor: int, *, by_admin: bool, state: Mapping[str, Any]) -> dict[str, Any]:
    """Make the form of a server without user data; `state` has what differs with its status."""
    since = {
        "locked": (9, bool),
        "description": (19, or_null(str)),
        "tags": (26, [str]),
        "trusted_image_certificates": (63, None),
        "server_groups": (71, []),
        "locked_reason": (73, or_null(str)),
        "OS-EXT-SRV-ATTR:hostname": (90, str),
        "pinned_availability_zone": (96, or_null(str)),
    }
    of_admin = {
        "OS-EXT-SRV-ATTR:reservation_id": (3, UUID),
        "OS-EXT-SRV-ATTR:launch_index": (3, int),
        "OS-EXT-SRV-ATTR:kernel_id": (3, str),
        "OS-EXT-SRV-ATTR:ramdisk_id": (3, str),
        "OS-EXT-SRV-ATTR:root_device_name": (3, None),
        "OS-EXT-SRV-ATTR:hostname": (3, str),
        "host_status": (16, "UP"),
        "OS-EXT-SRV-ATTR:host": (1, "h1"),
        "OS-EXT-SRV-ATTR:hypervisor_hostname": (1, "h1"),
        "OS-EXT-SRV-ATTR:instance_name": (1, str),
    }
    dated = {**since, **(of_admin if by_admin else {})}
    image: dict[str, Any] = {"id": UUID, "name": str, "links": links_to("images", only_bookmark=True)}
    if minor >= 98:
        image["properties"] = {"os": "linux"}
    return {
        "id": UUID,
        "name": str,
        "links": links_to("servers"),
        "status": str,
        "tenant_id": str,
        "user_id": UUID,
        "metadata": {},
        "hostId": HOST_ID,
        "image": image,
        "flavor": _flavor_of_server(minor),
        "created": TIME,
        "updated": TIME,
        "addresses": {},
        "accessIPv4": "",
        "accessIPv6": "",
        "OS-DCF:diskConfig": frozenset({"MANUAL", "AUTO"}),
        "OS-EXT-AZ:availability_zone": str,
        "config_drive": "",
        "key_name": or_null(str),
        "OS-SRV-USG:launched_at": ZONELESS,
        "OS-SRV-USG:terminated_at": None,
        "security_groups": [{"name": str}],
        "OS-EXT-STS:task_state": or_null(str),
        "OS-EXT-STS:vm_state": str,
        "OS-EXT-STS:power_state": int,
        "os-extended-volumes:volumes_attached": [],
        # What a zone adds.
        "reservation_id": UUID,
        "stale": bool,
        **{name: form for name, (first, form) in dated.items() if minor >= first},
        **{name: form for name, form in state.items() if name not in dated or minor >= dated[name][0]},
    }


def _flavor_of_server(minor: int) -> dict[str, Any]:
    if minor < 47:
        return {"id": str, "name": str, "links": links_to("flavors", only_bookmark=True)}
    sizes = dict.fromkeys(("vcpus", "ram", "disk", "ephemeral", "swap"), int)
    return {"original_name": str, **sizes, "extra_specs": {}}


NO_HOST = {
    "OS-EXT-SRV-ATTR:host": None,
    "OS-EXT-SRV-ATTR:hypervisor_hostname": None,
    "OS-EXT-SRV-ATTR:instance_name": "",
    "host_status": "",
}
ACTIVE = {
    "status": "ACTIVE",
    "OS-EXT-STS:vm_state": "active",
    "OS-EXT-STS:power_state": 1,
    "OS-EXT-STS:task_state": None,
    "progress": 100,
}
SHUTOFF = {"status": "SHUTOFF", "OS-EXT-STS:vm_state": "stopped", "OS-EXT-STS:power_state": 4}
PAUSED = {"status": "PAUSED", "OS-EXT-STS:vm_state": "paused", "OS-EXT-STS:power_state": 3}
RESIZED = {**ACTIVE, "status": "VERIFY_RESIZE", "OS-EXT-STS:vm_state": "resized"}
OFFLOADED = {
    **NO_HOST,
    "status": "SHELVED_OFFLOADED",
    "OS-EXT-STS:vm_state": "shelved_offloaded",
    "OS-EXT-STS:power_state": 0,
    "hostId": "",
}
BUILD = {
    "status": "BUILD",
    "OS-EXT-STS:vm_state": "building",
    "OS-EXT-STS:power_state": 0,
    "OS-EXT-STS:task_state": "spawning",
    "OS-SRV-USG:launched_at": None,
    "progress": 0,
}
FAULT = {"code": 500, "message": str, "created": TIME, "error_code": "no_valid_host", "attempts": []}
ERROR = {
    **NO_HOST,
    "status": "ERROR",
    "OS-EXT-STS:vm_state": "error",
    "OS-EXT-STS:power_state": 0,
    "OS-SRV-USG:launched_at": None,
    "hostId": "",
    "fault": {**FAULT, "details": re.compile("Hosts left: .+")},
}


class Zone:
    """A zone with two hosts, and a server on one of them."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.node: Node = self.tree.add("leaf", hosts_=[a_host("h1"), a_host("h2")])
        self.admin, self.member = self.node.client(), self.node.client("member")
        for flavor in (FLAVOR, LARGER):
            self.admin.post("/flavors", flavor)
        self.image = self.admin.post("/images", IMAGE).json["image"]["id"]
        self.admin.call("PUT", f"/os-services/{self.host('h2')}", {"status": "disabled"})
        self.agent = PlayedAgent(self.node)
        self.uuid = self.boot()

    def host(self, name: str) -> str:
        listed = self.admin.get("/os-hypervisors").json["hypervisors"]
        return next(str(one["id"]) for one in listed if one["hypervisor_hostname"] == name)

    def boot(self, **members: Any) -> str:
        server = {"name": "vm", "flavorRef": "small", "imageRef": self.image, **members}
        return str(self.member.post("/servers", {"server": server}).json["server"]["id"])

    def settle(self) -> None:
        for _ in range(3):
            self.tree.settle()
            self.agent.converge()

    def act(self, *actions: Any) -> None:
        for action in actions:
            assert self.member.post(f"/servers/{self.uuid}/action", action).status in (202, 204)
            self.settle()

    def at(self, minor: int, path: str, user: str = "admin") -> Any:
        headers = {"OpenStack-API-Version": f"compute 2.{minor}"}
        answer = self.node.client(user).call("GET", path, headers=headers)
        assert answer.status == 200, answer.json
        return answer.json


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return Zone(tmp_path)


def test_a_server_in_each_of_its_statuses(zone: Zone) -> None:
    found: list[str] = []

    def look(state: Mapping[str, Any], uuid: str = "") -> None:
        for minor in VERSIONS:
            for user in ("admin", "member"):
                form = server_form(minor, by_admin=user == "admin", state=_seen_by(user, state))
                shown = zone.at(minor, f"/servers/{uuid or zone.uuid}", user)["server"]
                listed = zone.at(minor, "/servers/detail", user)["servers"]
                found.extend(mismatches(form, shown, f"2.{minor} {user} {state['status']}"))
                form.pop("server_groups", None)
                (line,) = [one for one in listed if one["id"] == (uuid or zone.uuid)]
                found.extend(mismatches(form, line, f"2.{minor} {user} {state['status']} listed"))

    zone.tree.settle()
    look(BUILD)
    zone.settle()
    look(ACTIVE)
    for actions, state in (
        ([{"pause": None}], PAUSED),
        ([{"unpause": None}, {"os-stop": None}], SHUTOFF),
        ([{"os-start": None}, {"resize": {"flavorRef": "larger"}}], RESIZED),
        ([{"confirmResize": None}, {"shelve": None}], OFFLOADED),
    ):
        zone.act(*actions)
        look(state)
    too_large = zone.admin.post("/flavors", {"flavor": {"name": "huge", "vcpus": 999, "ram": 1, "disk": 1}})
    huge = zone.boot(flavorRef=too_large.json["flavor"]["id"])
    zone.settle()
    look(ERROR, huge)

    assert found == []


def _seen_by(user: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out of a state what only an admin sees."""
    if user == "admin":
        return state
    seen = {name: form for name, form in state.items() if name not in NO_HOST}
    return {**seen, "fault": FAULT} if "fault" in seen else seen


def test_an_admin_sees_when_a_deleted_server_ended(zone: Zone) -> None:
    zone.settle()
    zone.act({"os-stop": None})
    zone.tree.clock.advance(60.0)
    zone.member.delete(f"/servers/{zone.uuid}")
    zone.settle()

    (deleted,) = zone.at(98, "/servers/detail?deleted=true")["servers"]

    times = {name: deleted[f"OS-SRV-USG:{name}_at"] for name in ("launched", "terminated")}
    assert [*mismatches(dict.fromkeys(times, ZONELESS), times)] == []
    assert times["launched"] < times["terminated"]
    assert (deleted["status"], deleted["OS-EXT-STS:vm_state"]) == ("DELETED", "deleted")


def test_a_change_of_its_details_leaves_when_it_was_launched_and_created(zone: Zone) -> None:
    zone.settle()

    def times() -> tuple[Any, ...]:
        shown = zone.at(98, f"/servers/{zone.uuid}")["server"]
        (created,) = zone.at(98, f"/servers/{zone.uuid}/os-instance-actions")["instanceActions"]
        return shown["OS-SRV-USG:launched_at"], created["finish_time"], created["result"]

    before = times()
    zone.tree.clock.advance(60.0)
    for path, body in (
        ("", {"server": {"name": "renamed"}}),
        ("/metadata", {"metadata": {"a": "b"}}),
        ("/tags", {"tags": ["t"]}),
    ):
        assert zone.member.call("PUT", f"/servers/{zone.uuid}{path}", body).status == 200

    assert times() == before
    assert before[2] == "done"


def test_the_name_of_an_instance_is_what_its_driver_calls_it(zone: Zone) -> None:
    zone.settle()

    shown = zone.at(98, f"/servers/{zone.uuid}")["server"]

    (line,) = zone.agent.work()
    assert shown["OS-EXT-SRV-ATTR:instance_name"] == f"{line['uuid']}.{line['attempt']}"


def test_the_servers_of_a_boot_are_numbered(zone: Zone) -> None:
    boot = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}}
    reservation = zone.member.post("/zones/boot", boot).json["reservation_id"]
    zone.settle()

    found = zone.at(3, f"/servers/detail?reservation_id={reservation}&all_tenants=1")["servers"]

    assert sorted(one["OS-EXT-SRV-ATTR:launch_index"] for one in found) == [0, 1, 2]


@pytest.mark.parametrize("minor", [1, 54, 55, 60, 61, 74, 75])
def test_a_flavor(zone: Zone, minor: int) -> None:
    brief: dict[str, Any] = {"id": str, "name": "small", "links": links_to("flavors")}
    if minor >= 55:
        brief["description"] = None
    form = {
        **brief,
        **dict.fromkeys(("vcpus", "ram", "disk", "OS-FLV-EXT-DATA:ephemeral"), int),
        "swap": 0 if minor >= 75 else "",
        "rxtx_factor": 1.0,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": True,
        **({"extra_specs": {}} if minor >= 61 else {}),
    }
    lists = [zone.at(minor, f"/flavors{path}?sort_key=name")["flavors"][1] for path in ("", "/detail")]

    assert [*mismatches(brief, lists[0])] == []
    assert [*mismatches(form, lists[1])] == []
    assert [*mismatches(form, zone.at(minor, f"/flavors/{lists[0]['id']}")["flavor"])] == []


@pytest.mark.parametrize("minor", [1, 27, 28, 52, 53, 87, 88])
def test_a_hypervisor(zone: Zone, minor: int) -> None:
    zone.settle()
    service = {"id": UUID, "host": "h1", "disabled_reason": None}
    sizes = ("vcpus", "memory_mb", "local_gb", "free_ram_mb", "free_disk_gb")
    used = ("vcpus_used", "memory_mb_used", "local_gb_used", "running_vms")
    versioned: dict[str, Any] = {"uptime": None}
    if minor < 88:
        cpu_info = {} if minor >= 28 else ""
        versioned = {"cpu_info": cpu_info, "current_workload": 0, "disk_available_least": None}
    form = {
        "id": UUID,
        "hypervisor_hostname": "h1",
        "state": "up",
        "status": "enabled",
        "host_ip": str,
        "hypervisor_type": str,
        "hypervisor_version": int,
        "service": service,
        **dict.fromkeys((*sizes, *used), int),
        **versioned,
        # What a zone adds.
        "agent": str,
        "availability_zone": str,
        "aggregates": [str],
        "resources": dict,
        "capabilities": dict,
        "traits": [str],
    }

    shown = zone.at(minor, f"/os-hypervisors/{zone.host('h1')}")["hypervisor"]

    assert [*mismatches(form, shown)] == []
    (listed,) = zone.at(minor, "/os-services?host=h1")["services"]
    assert (listed["id"], listed["host"]) == (shown["service"]["id"], shown["service"]["host"])


def test_a_service(zone: Zone) -> None:
    form = {
        "id": UUID,
        "binary": str,
        "host": str,
        "zone": str,
        "status": frozenset({"enabled", "disabled"}),
        "state": frozenset({"up", "down"}),
        "updated_at": ZONELESS,
        "disabled_reason": or_null(str),
        "forced_down": bool,
        # What a zone adds.
        "topic": str,
        "report_count": int,
    }

    assert [*mismatches([form], zone.at(98, "/os-services")["services"])] == []


@pytest.mark.parametrize("minor", [1, 2, 10, 35, 91, 92])
def test_a_key_pair(zone: Zone, minor: int) -> None:
    zone.admin.post("/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
    brief = {"name": "k", "public_key": KEY, "fingerprint": FINGERPRINT}
    if minor >= 2:
        brief["type"] = "ssh"
    record = {
        "id": int,
        "user_id": UUID,
        "created_at": ZONELESS,
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }

    assert [*mismatches([{"keypair": brief}], zone.at(minor, "/os-keypairs")["keypairs"])] == []
    assert [*mismatches({**brief, **record}, zone.at(minor, "/os-keypairs/k")["keypair"])] == []


def test_an_aggregate(zone: Zone) -> None:
    made = zone.admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "az"}}).json
    form = {
        "id": int,
        "uuid": UUID,
        "name": "a",
        "availability_zone": "az",
        "hosts": [],
        "metadata": {"availability_zone": "az"},
        "created_at": ZONELESS,
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }

    assert [*mismatches(form, made["aggregate"])] == []
    assert zone.at(98, "/os-aggregates")["aggregates"] == [made["aggregate"]]


def test_actions_and_their_events(zone: Zone) -> None:
    zone.settle()
    zone.act({"os-stop": None})
    form = {
        "action": frozenset({"stop", "create"}),
        "instance_uuid": zone.uuid,
        "request_id": REQUEST_ID,
        "user_id": UUID,
        "project_id": str,
        "start_time": ZONELESS,
        "updated_at": ZONELESS,
        "message": None,
        # What a zone adds.
        "finish_time": ZONELESS,
        "result": "done",
        "error_code": "",
    }
    event = {
        "event": "compute_stop_instance",
        "start_time": ZONELESS,
        "finish_time": ZONELESS,
        "result": "Success",
        "details": None,
        "traceback": None,
        "hostId": "",
    }
    path = f"/servers/{zone.uuid}/os-instance-actions"

    listed = zone.at(98, path)["instanceActions"]
    shown = zone.at(98, f"{path}/{listed[0]['request_id']}")["instanceAction"]

    assert [*mismatches([form], listed)] == []
    assert [*mismatches({**form, "events": [event]}, shown)] == []
    old = zone.at(61, f"{path}/{listed[0]['request_id']}")["instanceAction"]
    assert "hostId" not in old["events"][0]


def test_migrations(zone: Zone) -> None:
    zone.settle()
    zone.member.post(f"/servers/{zone.uuid}/action", {"resize": {"flavorRef": "larger"}})
    zone.tree.settle()
    form = {
        "id": UUID,
        "uuid": UUID,
        "status": str,
        "instance_uuid": zone.uuid,
        "server_uuid": zone.uuid,
        "migration_type": "resize",
        **dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node"), or_null("h1")),
        **dict.fromkeys(("dest_host", "old_instance_type_id", "new_instance_type_id"), None),
        "user_id": UUID,
        "project_id": str,
        "created_at": ZONELESS,
        "updated_at": ZONELESS,
    }
    amounts = {
        f"{what}_{which}_bytes": None
        for what in ("memory", "disk")
        for which in ("total", "processed", "remaining")
    }

    (of_server,) = zone.at(98, f"/servers/{zone.uuid}/migrations")["migrations"]

    assert [*mismatches([form], zone.at(98, "/os-migrations")["migrations"])] == []
    assert [*mismatches({**form, **amounts}, of_server)] == []


def test_a_usage_says_in_which_state_each_server_is(zone: Zone) -> None:
    zone.settle()
    zone.tree.clock.advance(3600.0)
    zone.act({"pause": None})
    line = {
        "instance_id": zone.uuid,
        "name": "vm",
        "tenant_id": str,
        "flavor": "small",
        **dict.fromkeys(("vcpus", "memory_mb", "local_gb", "uptime"), int),
        "hours": float,
        "started_at": ZONELESS,
        "ended_at": None,
        "state": "paused",
    }
    totals = [f"total_{what}" for what in ("hours", "vcpus_usage", "memory_mb_usage", "local_gb_usage")]
    form = {
        "tenant_id": str,
        "start": ZONELESS,
        "stop": ZONELESS,
        **dict.fromkeys(totals, float),
        "server_usages": [line],
    }

    (usage,) = zone.at(98, "/os-simple-tenant-usage?detailed=1")["tenant_usages"]

    assert [*mismatches(form, usage)] == []
