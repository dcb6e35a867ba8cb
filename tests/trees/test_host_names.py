"""Two agents that have a host of one name, as two machines of one host name have."""

from __future__ import annotations

from pathlib import Path

from tests.builders.boots import FLAVOR
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.tree import Tree


def test_a_second_agent_with_a_host_of_that_name_ends_nothing_of_the_first(tmp_path: Path) -> None:
    # given a server on the host of an agent
    tree = Tree(tmp_path)
    node = tree.add("zone")
    first = RealAgent(tree, "zone", [a_machine("localhost")], "agent-1")
    node.client().post("/flavors", FLAVOR)
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    uuid = node.client("member").post("/servers", body).json["server"]["id"]
    tree.settle()
    first.work()
    # when another machine of the same host name gets an agent, too
    second = RealAgent(tree, "zone", [a_machine("localhost")], "agent-2")
    for _ in range(3):
        first.work()
        second.work()
    # then the server runs on, where it was
    assert (first.uuids(), second.uuids()) == ({uuid}, set())
    assert node.client("member").get(f"/servers/{uuid}").json["server"]["status"] == "ACTIVE"
