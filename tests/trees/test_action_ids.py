"""Ids of the actions on a server: each has one, whoever has asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.moving import act, booted
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.services.owners import resize_confirms

WIDE = {"flavor": {**FLAVOR["flavor"], "id": "wide", "name": "wide", "ram": 4096}}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=8)], resize_confirm_window=600.0)
    for flavor in (FLAVOR, WIDE):
        node.client().post("/flavors", flavor)
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["leaf"]


def paged(node: Node, uuid: str) -> list[Any]:
    """The actions on a server, each on a page of its own."""
    found: list[Any] = []
    query = "limit=1"
    while query:
        headers = {"OpenStack-API-Version": "compute 2.58"}
        path = f"/servers/{uuid}/os-instance-actions?{query}"
        answer = node.client("member").call("GET", path, headers=headers).json
        found += answer["instanceActions"]
        assert len(found) < 10, "the pages do not end"
        links = answer.get("links", [])
        query = links[0]["href"].partition("?")[2] if links else ""
    return found


def shown(node: Node, uuid: str, request_id: str) -> Any:
    path = f"/servers/{uuid}/os-instance-actions/{request_id}"
    return node.client("member").get(path).json["instanceAction"]["action"]


def test_what_a_zone_does_by_itself_is_listed_and_shown(tree: Tree, node: Node) -> None:
    agent = PlayedAgent(node)
    uuid = booted(tree, agent)
    act(node, uuid, {"resize": {"flavorRef": "wide"}}, user="member")
    for _ in range(2):
        tree.settle(1)
        agent.converge()
    tree.clock.advance(601)

    resize_confirms.confirm_overdue(node.zone)

    found = paged(node, uuid)
    assert [one["action"] for one in found] == ["confirmResize", "resize", "create"]
    assert [shown(node, uuid, one["request_id"]) for one in found] == ["confirmResize", "resize", "create"]
    assert len({one["project_id"] for one in found}) == 1


def test_actions_of_requests_with_one_id_are_told_apart(tree: Tree, node: Node) -> None:
    uuid = booted(tree, PlayedAgent(node))
    for action in ("lock", "unlock", "lock"):
        answer = node.client("member").post(
            f"/servers/{uuid}/action", {action: None}, headers={"X-Request-Id": "run-1"}
        )
        assert answer.status == 202

    found = paged(node, uuid)

    assert [one["action"] for one in found] == ["lock", "unlock", "lock", "create"]
    assert found[0]["request_id"] == "run-1"
    assert [shown(node, uuid, one["request_id"]) for one in found] == ["lock", "unlock", "lock", "create"]
