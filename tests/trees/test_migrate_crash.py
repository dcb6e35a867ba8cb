"""P8 and P9: whatever process dies between any two steps of a move, the server ends whole at one place."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.crashes import Killed, Seams, inconsistencies, open_actions
from tests.builders.moving import TwoAgents, add_host
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Tree, a_host


def a_server(folder: Path) -> tuple[Tree, str]:
    """A root and a zone of two hosts with an agent each; a server of the root's user on the first host."""
    tree = Tree(folder)
    tree.add("root")
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=4)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    made = tree.nodes["root"].client().post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    tree.settle(2)
    PlayedAgent(leaf).converge()
    add_host(leaf, "h2", vcpus=4)
    leaf.zone.heartbeats.write()
    uuid: str = made.json["server"]["id"]
    return tree, uuid


def move_until_killed(tree: Tree, uuid: str, agents: TwoAgents, seams: Seams) -> None:
    """Let all of a move happen, with retries, unless the zone dies of it."""
    leaf = tree.nodes["leaf"]
    with suppress(Killed):
        agents.step(0)
        leaf.client().post(f"/servers/{uuid}/action", {"migrate": None})
        for _ in range(3):
            tree.step("leaf")
            agents.step(0, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("cannot_build", ["", "build_failed"])
def test_a_zone_killed_at_any_step_of_a_move(tmp_path: Path, cannot_build: str) -> None:
    before, uuid = a_server(tmp_path)
    kill_at, killed = 0, True
    moved: set[str] = set()
    while killed:
        kill_at += 1
        tree = before.copy_to(tmp_path / str(kill_at))
        tree.poll()
        agents = TwoAgents(tree, cannot_build)
        seams = Seams(tree, "leaf", kill_at)

        move_until_killed(tree, uuid, agents, seams)

        killed = seams.killed
        seams.restart()
        for _ in range(4):
            # A worker that died has a lease until then.
            tree.clock.advance(61)
            tree.beat()
            tree.poll(1)
            tree.settle(2)
            agents.step(0, 1, 0)
            tree.settle(2)
            if not inconsistencies(tree) and not open_actions(tree):
                break
        server = tree.nodes["leaf"].client().get(f"/servers/{uuid}").json["server"]
        assert (server["status"], agents.running) == ("ACTIVE", [uuid]), f"killed at {kill_at}"
        assert agents.most == 1, f"killed at {kill_at}"
        nothing_is_wrong(tree)
        moved.add(server["OS-EXT-SRV-ATTR:host"])
    # Killed before it was accepted, it stays where it was.
    assert moved == ({"h1"} if cannot_build else {"h1", "h2"})
    assert kill_at > 8
