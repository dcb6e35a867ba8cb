"""A host that is gone for good waits for no owner of a resized server: it is whole at the other host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.moving import act, add_host, booted
from tests.builders.one_zone import sql
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host

LARGE = {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 3}}
AGENT_OF = {"h1": "agent", "h2": "agent-2"}


@built_once
def a_tree(folder: Path, h1_vcpus: int = 4) -> Tree:
    """A root, and a leaf where a server of its owner above is resized from h1 and waits for that owner.

    It is resized on h1 itself where that has room for both.
    """
    tree = Tree(folder)
    root = tree.add("root")
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=h1_vcpus)])
    tree.poll()
    for flavor in (FLAVOR, LARGE):
        root.client().post("/flavors", flavor)
    uuid = booted(tree, PlayedAgent(leaf), "root")
    tree.settle()
    add_host(leaf, "h2", vcpus=4)
    if h1_vcpus > 4:
        leaf.client().call("PUT", f"/os-services/{host_id(leaf, 'h2')}", {"status": "disabled"})
    assert act(root, uuid, {"resize": {"flavorRef": "large"}}, user="member").status == 202
    work(tree, "h1", "h2", "h1", "h2")
    return tree


def work(tree: Tree, *alive: str) -> None:
    tree.settle(2)
    for name in alive:
        PlayedAgent(tree.nodes["leaf"], service=AGENT_OF[name]).converge()
    tree.settle(2)


def host_id(leaf: Node, name: str) -> str:
    services = leaf.client().get("/os-services?binary=nova-compute").json["services"]
    return str(next(one["id"] for one in services if one["host"] == name))


def give_up(tree: Tree, name: str) -> dict[str, Any]:
    """Evacuate a host that is powered off for good, and remove it."""
    leaf = tree.nodes["leaf"]
    service = f"/os-services/{host_id(leaf, name)}"
    assert leaf.client().call("PUT", service, {"forced_down": True}).status == 200
    evacuated = leaf.client().post(f"{service}/action", {"evacuate": {"fenced": True}})
    assert evacuated.status == 202, evacuated.body
    removed = leaf.client().delete(service)
    assert removed.status == 204, removed.body
    found: dict[str, Any] = evacuated.json
    return found


def owner_sees(tree: Tree) -> tuple[str, str]:
    client = tree.nodes["root"].client("member")
    ((server,),) = [client.get("/servers/detail").json["servers"]]
    return server["status"], server["flavor"]["original_name"]


def used_vcpus(tree: Tree) -> dict[str, int]:
    found = tree.nodes["leaf"].client().get("/os-hypervisors/detail").json["hypervisors"]
    return {one["hypervisor_hostname"]: one["vcpus_used"] for one in found}


@pytest.mark.parametrize(
    ("gone", "stays", "flavor", "vcpus"), [("h2", "h1", "small", 2), ("h1", "h2", "large", 3)]
)
def test_the_server_is_whole_at_the_other_host(
    tmp_path: Path, gone: str, stays: str, flavor: str, vcpus: int
) -> None:
    tree = a_tree(tmp_path)
    assert owner_sees(tree) == ("VERIFY_RESIZE", "large")

    give_up(tree, gone)
    work(tree, stays, stays)

    assert owner_sees(tree) == ("ACTIVE", flavor)
    assert used_vcpus(tree) == {stays: vcpus}
    nothing_is_wrong(tree)


def test_one_that_was_resized_on_its_host_is_placed_anew(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, h1_vcpus=8)
    assert owner_sees(tree) == ("VERIFY_RESIZE", "large")
    leaf = tree.nodes["leaf"]
    leaf.client().call("PUT", f"/os-services/{host_id(leaf, 'h2')}", {"status": "enabled"})

    give_up(tree, "h1")
    for _ in range(2):
        work(tree, "h2", "h2")

    assert owner_sees(tree) == ("ACTIVE", "large")
    assert used_vcpus(tree) == {"h2": 3}
    # and by that flavor every zone counts it
    counted = "SELECT flavor_id, vcpus FROM instances"
    assert [sql(node.zone, counted) for node in tree.nodes.values()] == [[("large", 3)]] * 2
    nothing_is_wrong(tree)


@pytest.mark.parametrize("decided", ["confirmResize", "revertResize"])
@pytest.mark.parametrize("gone", ["h1", "h2"])
def test_a_decision_that_is_on_its_way_ends(tmp_path: Path, gone: str, decided: str) -> None:
    tree = a_tree(tmp_path)
    stays = "h1" if gone == "h2" else "h2"
    uuid = tree.nodes["root"].client("member").get("/servers").json["servers"][0]["id"]
    # given a decision that its zone has not heard of yet
    assert act(tree.nodes["root"], uuid, {decided: None}, user="member").status in (202, 204)

    give_up(tree, gone)
    work(tree, stays, stays)

    # then it has ended at the only place there is
    assert owner_sees(tree) == ("ACTIVE", {"h1": "small", "h2": "large"}[stays])
    assert used_vcpus(tree) == {stays: {"h1": 2, "h2": 3}[stays]}
    nothing_is_wrong(tree)
    lines = tree.nodes["root"].client("member").get(f"/servers/{uuid}/os-instance-actions")
    assert {line["result"] for line in lines.json["instanceActions"]} <= {"done", "error", "superseded"}
