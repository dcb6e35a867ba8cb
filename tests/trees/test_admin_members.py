"""Members of a server that OpenStack Nova shows to admins alone."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Node, Tree, a_host

DATA = base64.b64encode(b"#cloud-config\n").decode()


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    """A zone with one host and a flavor."""
    tree = Tree(tmp_path)
    tree.add("leaf", hosts_=[a_host("h1")], service_down_time=60)
    tree.nodes["leaf"].client().post("/flavors", FLAVOR)
    yield tree
    tree.stop()


def boot(tree: Tree, **members: Any) -> str:
    """Boot a server of a member, and let its agent build it."""
    node = tree.nodes["leaf"]
    server = {"name": "vm", "flavorRef": "small", **members}
    made = node.client("member").post("/servers", {"server": server})
    assert made.status == 202, made.json
    tree.settle()
    PlayedAgent(node).converge()
    return str(made.json["server"]["id"])


def shown(node: Node, uuid: str, minor: int = 98, user: str = "admin") -> dict[str, Any]:
    headers = {"OpenStack-API-Version": f"compute 2.{minor}"}
    found: dict[str, Any] = node.client(user).call("GET", f"/servers/{uuid}", headers=headers).json["server"]
    return found


def listed(node: Node, minor: int = 98) -> dict[str, Any]:
    headers = {"OpenStack-API-Version": f"compute 2.{minor}"}
    answer = node.client().call("GET", "/servers/detail?all_tenants=1", headers=headers)
    (found,) = answer.json["servers"]
    return dict(found)


def test_the_status_of_its_host_follows_the_host(tree: Tree) -> None:
    node, uuid = tree.nodes["leaf"], boot(tree)
    (host,) = node.client().get("/os-services?binary=nova-compute").json["services"]
    found = [shown(node, uuid)["host_status"]]

    for change in (
        {"status": "disabled"},
        {"forced_down": True},
        {"forced_down": False, "status": "enabled"},
    ):
        assert node.client().call("PUT", f"/os-services/{host['id']}", change).status == 200
        found.append(shown(node, uuid)["host_status"])
    tree.clock.advance(61)
    found.append(shown(node, uuid)["host_status"])

    assert found == ["UP", "MAINTENANCE", "DOWN", "UP", "UNKNOWN"]
    assert listed(node)["host_status"] == "UNKNOWN"


def test_a_server_on_no_host_has_no_status_of_its_host(tree: Tree) -> None:
    node, uuid = tree.nodes["leaf"], boot(tree)
    assert node.client("member").post(f"/servers/{uuid}/action", {"shelve": None}).status == 202
    tree.settle()
    PlayedAgent(node).converge()

    assert shown(node, uuid)["host_status"] == ""


@pytest.mark.parametrize(
    ("member", "first"),
    [("host_status", 16), ("OS-EXT-SRV-ATTR:hostname", 3)],
)
def test_an_admin_sees_it_from_its_microversion_on(tree: Tree, member: str, first: int) -> None:
    node, uuid = tree.nodes["leaf"], boot(tree)

    assert member in shown(node, uuid, first)
    assert member not in shown(node, uuid, first - 1)
    assert member not in shown(node, uuid, 89, user="member")


def test_nobody_reads_user_data_back(tree: Tree) -> None:
    node, uuid = tree.nodes["leaf"], boot(tree, user_data=DATA)

    for user in ("admin", "member"):
        for path in (f"/servers/{uuid}", "/servers/detail?all_tenants=1"):
            assert DATA not in node.client(user).get(path).body.decode()


def test_an_admin_reads_how_many_hosts_each_filter_left(tree: Tree) -> None:
    node = tree.nodes["leaf"]
    large = {"flavor": {"name": "large", "vcpus": 999, "ram": 1, "disk": 1}}
    assert node.client().post("/flavors", large).status == 200
    uuid = boot(tree, flavorRef="large")

    fault = shown(node, uuid)["fault"]

    assert fault["details"].startswith("Hosts left: ")
    assert "1 to 0" in fault["details"]
    assert "details" not in shown(node, uuid, user="member")["fault"]
