"""A zone whose database was put back from a copy, under an agent that has done more since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Node, Tree, a_host


def results(node: Node, uuid: str) -> list[tuple[str, str | None]]:
    lines = node.client("member").get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    return [(line["action"], line["result"]) for line in lines if line["action"] != "create"]


@dataclass
class Scene:
    """A zone with a server that runs, and its agent."""

    tree: Tree
    agent: PlayedAgent
    uuid: str

    def act(self, body: dict[str, Any]) -> None:
        assert self.agent.node.client("member").post(f"/servers/{self.uuid}/action", body).status == 202

    def put_back(self, folder: Path, lost: Sequence[dict[str, Any]]) -> None:
        """Copy the zone, do these actions, and put the copy back; the agent remembers."""
        copy = self.tree.copy_to(folder)
        for body in lost:
            self.act(body)
            self.agent.converge()
        self.agent = replace(self.agent, node=copy.nodes["leaf"])

    def shown(self) -> tuple[str, str | None]:
        server = self.agent.node.client("member").get(f"/servers/{self.uuid}").json["server"]
        return server["status"], server["OS-EXT-STS:task_state"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    tree = Tree(tmp_path / "now")
    node = tree.add("leaf", hosts_=[a_host("h1")])
    node.client().post("/flavors", FLAVOR)
    made = node.client("member").post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    tree.settle()
    agent = PlayedAgent(node)
    agent.converge()
    return Scene(tree, agent, str(made.json["server"]["id"]))


@pytest.mark.parametrize("lost", [["pause", "unpause"], ["pause", "unpause", "os-stop"]], ids=len)
def test_an_action_that_was_taken_before_the_agent_reported_is_done_after_what_was_lost(
    scene: Scene, tmp_path: Path, lost: list[str]
) -> None:
    scene.put_back(tmp_path / "copy", [{action: None} for action in lost])
    (done,) = scene.agent.sent

    scene.act({"suspend": None})
    scene.agent.report([done, done])
    under_way = scene.shown()[1]
    (line,) = scene.agent.work()
    scene.agent.converge()

    assert under_way == "suspending"
    # Above all that the agent knows, once: a repeated report changes nothing.
    assert line["desired"]["generation"] == done["generation"] + 1
    assert scene.shown() == ("SUSPENDED", None)
    assert results(scene.agent.node, scene.uuid) == [("suspend", "done")]


def test_a_reboot_is_none_of_those_that_were_lost(scene: Scene, tmp_path: Path) -> None:
    hard = {"reboot": {"type": "HARD"}}
    scene.put_back(tmp_path / "copy", [hard, hard])
    (done,) = scene.agent.sent

    scene.act(hard)
    scene.agent.report([done])
    scene.agent.converge()

    assert scene.agent.reboots == {scene.uuid: 3}
    assert scene.shown() == ("ACTIVE", None)
    assert results(scene.agent.node, scene.uuid) == [("reboot", "done")]


def test_a_reboot_after_lost_ones_that_the_zone_has_learnt_of_is_done(scene: Scene, tmp_path: Path) -> None:
    hard = {"reboot": {"type": "HARD"}}
    scene.put_back(tmp_path / "copy", [hard, hard])
    (done,) = scene.agent.sent
    scene.agent.report([done])

    scene.act(hard)
    scene.agent.converge()

    assert scene.agent.reboots == {scene.uuid: 3}
    assert results(scene.agent.node, scene.uuid) == [("reboot", "done")]


def test_what_the_agent_has_done_since_the_copy_counts_and_the_next_action_is_done(tmp_path: Path) -> None:
    # given a copy of a zone with a server that runs
    tree = Tree(tmp_path / "now")
    node = tree.add("leaf", hosts_=[a_host("h1")])
    node.client().post("/flavors", FLAVOR)
    made = node.client("member").post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    uuid = str(made.json["server"]["id"])
    tree.settle()
    agent = PlayedAgent(node)
    agent.converge()
    copy = tree.copy_to(tmp_path / "copy")
    # and an agent that has paused it since, gone on with it, and stopped it
    for action in ("pause", "unpause", "os-stop"):
        assert node.client("member").post(f"/servers/{uuid}/action", {action: None}).status == 202
        agent.converge()
    (done,) = agent.sent
    # when the copy is put back, and the agent reports again
    restored = copy.nodes["leaf"]
    agent = replace(agent, node=restored)
    agent.report([done, done])
    # then the zone knows what is so
    shown = restored.client("member").get(f"/servers/{uuid}").json["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("SHUTOFF", None)
    # and takes actions from there on
    assert restored.client("member").post(f"/servers/{uuid}/action", {"os-start": None}).status == 202
    (line,) = agent.work()
    assert line["desired"]["generation"] == done["generation"] + 1
    agent.converge()
    assert results(restored, uuid) == [("start", "done")]
