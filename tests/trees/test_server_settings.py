"""Settings that a server is made with and that change later, and hosts that an admin names for a boot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.services.catalog import users

FLAVOR = {
    "name": "small",
    "id": "f-1",
    "vcpus": 1,
    "ram": 64,
    "disk": 1,
    "OS-FLV-EXT-DATA:ephemeral": 2,
    "swap": 1500,
}
SHOWN = ("accessIPv4", "accessIPv6", "OS-DCF:diskConfig", "OS-EXT-SRV-ATTR:hostname")


@built_once
def a_tree(folder: Path) -> Tree:
    """A root with the hosts r1 and r2, the second disabled, and a leaf with l1."""
    tree = Tree(folder)
    root = tree.add("root", hosts_=[a_host("r1"), a_host("r2")])
    tree.add("leaf", parent="root", hosts_=[a_host("l1")])
    tree.poll()
    root.secrets["ann"] = users.create(root.zone.store, root.zone.clock, "ann", Role.MEMBER, "p1").secret
    assert root.client().post("/flavors", {"flavor": FLAVOR}).status == 200
    return tree


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = a_tree(tmp_path)
    yield tree
    for node in tree.nodes.values():
        node.zone.stop()


@pytest.fixture
def root(tree: Tree) -> Node:
    return tree.nodes["root"]


def create(root: Node, user: str = "ann", **members: Any) -> Answer:
    server = {"name": "Web 1", "flavorRef": "f-1", **members}
    return root.client(user).post("/servers", {"server": server})


def show(root: Node, uuid: str) -> dict[str, Any]:
    found: dict[str, Any] = root.client().get(f"/servers/{uuid}").json["server"]
    return found


def shown(root: Node, uuid: str) -> list[str]:
    found = show(root, uuid)
    return [found[name] for name in SHOWN]


def test_a_server_keeps_the_settings_that_it_is_made_with(root: Node) -> None:
    made = create(
        root,
        accessIPv4="192.0.2.7",
        accessIPv6="2001:DB8::0:7",
        **{"OS-DCF:diskConfig": "AUTO"},
        hostname="db.example.org",
        adminPass="given",
        trusted_image_certificates=None,
        personality=[],
    ).json["server"]

    assert (made["adminPass"], made["OS-DCF:diskConfig"]) == ("given", "AUTO")
    assert shown(root, made["id"]) == ["192.0.2.7", "2001:db8::7", "AUTO", "db.example.org"]
    assert "given" not in str(show(root, made["id"]))


def test_a_server_without_settings_has_openstacks_defaults(root: Node) -> None:
    made = create(root).json["server"]

    assert shown(root, made["id"]) == ["", "", "MANUAL", "web-1"]


def test_settings_change_and_a_part_left_out_stays(root: Node) -> None:
    uuid = create(root, accessIPv4="192.0.2.7").json["server"]["id"]
    change = {"accessIPv6": "2001:db8::8", "OS-DCF:diskConfig": "AUTO", "hostname": "other"}

    changed = root.client("ann").call("PUT", f"/servers/{uuid}", {"server": change})

    assert changed.status == 200
    assert shown(root, uuid) == ["192.0.2.7", "2001:db8::8", "AUTO", "other"]
    root.client("ann").call("PUT", f"/servers/{uuid}", {"server": {"accessIPv4": ""}})
    assert shown(root, uuid)[0] == ""


def test_the_host_name_stays_when_the_server_is_renamed(root: Node) -> None:
    uuid = create(root).json["server"]["id"]

    root.client("ann").call("PUT", f"/servers/{uuid}", {"server": {"name": "new name"}})

    found = show(root, uuid)
    assert (found["name"], found["OS-EXT-SRV-ATTR:hostname"]) == ("new name", "web-1")


@pytest.mark.parametrize(
    ("members", "code", "field"),
    [
        ({"accessIPv4": "192.0.2.256"}, "invalid_value", "accessIPv4"),
        ({"accessIPv4": "2001:db8::1"}, "invalid_value", "accessIPv4"),
        ({"accessIPv4": 7}, "wrong_type", "accessIPv4"),
        ({"accessIPv6": "192.0.2.1"}, "invalid_value", "accessIPv6"),
        ({"accessIPv6": "fe80::1%eth0"}, "invalid_value", "accessIPv6"),
        ({"OS-DCF:diskConfig": "auto"}, "invalid_value", "OS-DCF:diskConfig"),
        ({"hostname": "-a"}, "invalid_value", "hostname"),
        ({"hostname": "a_b"}, "invalid_value", "hostname"),
        ({"hostname": "a" * 64}, "invalid_value", "hostname"),
        ({"hostname": "a." * 128}, "too_long", "hostname"),
        (
            {"trusted_image_certificates": ["c"]},
            "image_certificates_unsupported",
            "trusted_image_certificates",
        ),
        ({"trusted_image_certificates": [5]}, "wrong_type", "trusted_image_certificates.0"),
        ({"personality": [{"path": "/a", "contents": "YQ=="}]}, "file_injection_unsupported", "personality"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_what_no_zone_can_do_is_refused_by_its_name(
    root: Node, method: str, members: dict[str, Any], code: str, field: str
) -> None:
    uuid = create(root).json["server"]["id"]
    before = show(root, uuid)

    if method == "POST":
        refused = create(root, **members)
    else:
        refused = root.client("ann").call("PUT", f"/servers/{uuid}", {"server": members})

    assert refused.status == 400
    fault = refused.json["badRequest"]
    assert (fault["error_code"], fault["field"]) == (code, f"server.{field}")
    assert show(root, uuid) == before
    assert len(root.client("ann").get("/servers").json["servers"]) == 1


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"adminPass": 1}, "server.adminPass"),
        ({"hostname": "one", "min_count": 2}, "server.hostname"),
    ],
)
def test_a_boot_is_refused_for(root: Node, members: dict[str, Any], field: str) -> None:
    refused = create(root, **members)

    assert (refused.status, refused.json["badRequest"]["field"]) == (400, field)


def test_ephemeral_disk_and_swap_count_as_disk(tree: Tree, root: Node) -> None:
    create(root, "admin", host="r1")
    tree.settle()

    found = root.client().get("/os-hypervisors/detail").json["hypervisors"]

    # 1 GB of root disk, 2 of ephemeral disk, and 1500 MB of swap rounded up.
    assert {host["hypervisor_hostname"]: host["local_gb_used"] for host in found} == {
        "r1": 1 + 2 + 2,
        "r2": 0,
    }


# -- hosts that an admin names -----------------------------------------------------------------------------


def host_of(tree: Tree, made: Answer) -> str:
    assert made.status == 202, made.body
    tree.settle()
    found = show(tree.nodes["root"], made.json["server"]["id"])
    return str(found.get("OS-EXT-SRV-ATTR:host") or found["status"])


@pytest.mark.parametrize(
    "members",
    [
        {"host": "r2"},
        {"hypervisor_hostname": "r2"},
        {"host": "r2", "hypervisor_hostname": "r2"},
        {"availability_zone": ":r2"},
        {"availability_zone": "any:r2"},
        {"availability_zone": "any:r2:r2"},
        {"availability_zone": "any::r2"},
    ],
)
def test_an_admin_names_the_host_of_a_server(tree: Tree, members: dict[str, str]) -> None:
    assert host_of(tree, create(tree.nodes["root"], "admin", **members)) == "r2"


def test_only_a_host_in_the_availability_zone_passes_over_the_filters(tree: Tree, root: Node) -> None:
    body = {"host": "r2", "binary": "nova-compute", "disabled_reason": "broken"}
    assert root.client().call("PUT", "/os-services/disable-log-reason", body).status == 200
    tree.poll()

    assert host_of(tree, create(root, "admin", availability_zone="any:r2")) == "r2"
    assert host_of(tree, create(root, "admin", host="r2")) == "ERROR"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"host": "l1"}, "server.host"),
        ({"hypervisor_hostname": "none"}, "server.hypervisor_hostname"),
        ({"availability_zone": "any:none"}, "server.availability_zone"),
        ({"availability_zone": "any:"}, "server.availability_zone"),
        ({"availability_zone": "a:r1:r2"}, "server.availability_zone"),
        ({"availability_zone": "a:r1:r1:r1"}, "server.availability_zone"),
        ({"availability_zone": "a:r1", "host": "r1"}, "server.host"),
        ({"host": "r1", "hypervisor_hostname": "r2"}, "server.hypervisor_hostname"),
        ({"host": 5}, "server.host"),
    ],
)
def test_a_host_that_cannot_be_is_refused(root: Node, members: dict[str, Any], field: str) -> None:
    refused = create(root, "admin", **members)

    assert (refused.status, refused.json["badRequest"]["field"]) == (400, field)
    assert root.client().get("/servers").json["servers"] == []


@pytest.mark.parametrize(
    "members", [{"host": "r1"}, {"availability_zone": "any:r1"}, {"availability_zone": "a:"}]
)
def test_a_member_names_no_host(root: Node, members: dict[str, str]) -> None:
    refused = create(root, **members)

    assert refused.status in (400, 403)
    [fault] = refused.json.values()
    assert fault["error_code"] in ("host_refused", "invalid_value")
    assert "r1" not in fault["message"]


def test_a_host_is_not_named_twice(root: Node) -> None:
    body = {
        "server": {"name": "x", "flavorRef": "f-1", "availability_zone": "a:r1"},
        "os:scheduler_hints": {"force_hosts": "r2"},
    }
    refused = root.client().post("/servers", body)

    assert refused.json["badRequest"]["error_code"] == "hints_contradict"
