"""An agent that asks for what has changed of its list, by HTTP."""

from __future__ import annotations

from pathlib import Path

from tests.builders.boots import FLAVOR
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.tree import Tree
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection


def test_an_agent_gets_what_has_changed_and_keeps_the_rest(tmp_path: Path) -> None:
    # given an agent with instances
    tree = Tree(tmp_path)
    node = tree.add("zone")
    agent = RealAgent(tree, "zone", [a_machine("h1")])
    node.client().post("/flavors", FLAVOR)
    body = {"server": {"name": "vm", "flavorRef": "small", "max_count": 12}}
    node.client("member").post("/servers", body)
    tree.settle()
    agent.work()
    answers = []

    class Overheard(ZoneConnection):
        def call(self, *args: object, **named: object) -> object:
            answers.append(super().call(*args, **named))  # type: ignore[arg-type]
            return answers[-1]

    connection = Overheard(node.url, "compute", node.secrets["compute"], adapter=tree.network)
    client = AgentClient(connection, "agent")
    first = client.fetch()
    assert {one.key for one in first.wanted} == agent.running
    # when it asks again, then nothing is sent again
    assert client.fetch() == first
    assert answers[-1]["instances"] == []
    # when one of them is to stop, and another one is deleted
    stopped, deleted = (one.key.uuid for one in first.wanted[:2])
    assert node.client("member").post(f"/servers/{stopped}/action", {"os-stop": None}).status == 202
    assert node.client("member").delete(f"/servers/{deleted}").status == 204
    tree.settle()
    # then it has what an agent has that asks for all
    known, anew = client.fetch(), AgentClient(connection, "agent").fetch()
    assert len(answers[-2]["instances"]) < len(answers[-1]["instances"])
    assert set(map(repr, known.wanted)) == set(map(repr, anew.wanted))
    assert deleted not in {one.key.uuid for one in known.wanted}
    # and so it has without tags
    plain = node.client("compute").get("/hosts/instances?service=agent").json["instances"]
    assert {one["uuid"] for one in plain} == {one.key.uuid for one in known.wanted}


def test_tags_have_their_form(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    node = tree.add("zone")
    RealAgent(tree, "zone", [a_machine("h1")])
    refused = node.client("compute").get("/hosts/instances?service=agent&known=XYZ")
    assert (refused.status, refused.json["badRequest"]["field"]) == (400, "known")
