"""What the answers to a parent say of an attempt: its stored state, and why it is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.parent_calls import (
    RESERVATION,
    a_parent,
    a_spec,
    confirm,
    of_builds,
    offered,
    send,
    uuid,
)
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.add("leaf", hosts_=[a_host("leaf-1")])
    a_parent(tree.nodes["leaf"], "parent-a")
    return tree


@pytest.fixture
def leaf(tree: Tree) -> Node:
    return tree.nodes["leaf"]


def test_a_confirmed_attempt_whose_instance_was_deleted_has_no_reason_of_a_failed_build(leaf: Node) -> None:
    (blob,) = offered(leaf, "parent-a", a_spec(1))
    send(leaf, "parent-a", a_spec(1), {1: blob})
    confirm(leaf, "parent-a", [1])
    PlayedAgent(leaf).converge()
    assert leaf.client("parent-a").delete(f"/servers/{uuid(1)}?attempt=1").status == 204

    again = (confirm(leaf, "parent-a", [1]), send(leaf, "parent-a", a_spec(1), {1: blob}))

    for answer in again:
        assert (of_builds(answer, "state"), of_builds(answer, "reason")) == (["confirmed"], [""])


def test_a_server_that_ran_and_ended_by_its_drivers_word_is_told_as_ended(leaf: Node) -> None:
    (blob,) = offered(leaf, "parent-a", a_spec(1))
    send(leaf, "parent-a", a_spec(1), {1: blob})
    confirm(leaf, "parent-a", [1])
    report = {"uuid": uuid(1), "attempt": 1}
    for more in ({"state": "active"}, {"state": "error", "reason": "fan_of_rack_7_broke"}):
        leaf.client("compute").post("/hosts/reports", {"service": "agent", "reports": [report | more]})

    parent = leaf.client("parent-a")
    (changed,) = parent.get("/reservations?cursor=").json["instances"]
    reasons = parent.get(f"/reservations/{RESERVATION}").json["reservation"]["reasons"]

    assert (changed["status"], changed["state"], changed["reason"]) == ("ERROR", "confirmed", "ended_on_host")
    assert [line["code"] for line in reasons] == ["ended_on_host"]
