"""P8 and P9: whatever process dies between any two steps of a resize, it ends whole at one place.

A resize is asked for at the root and confirmed, and one that waits for its owner is reverted; its zone, the
one between or the root dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.crashes import Killed, Seams
from tests.builders.moving import TwoAgents, act, add_host
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Tree, a_host

LARGE = {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 3}}
RESIZE = {"resize": {"flavorRef": "large"}}
CONFIRM, REVERT = {"confirmResize": None}, {"revertResize": None}


def a_server(folder: Path) -> tuple[Tree, str]:
    """Three levels, and below two hosts with an agent each; a server of the root's user on the first host."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("region", parent="root")
    leaf = tree.add("leaf", parent="region", hosts_=[a_host("h1", vcpus=4)])
    tree.poll(2)
    for flavor in (FLAVOR, LARGE):
        tree.nodes["root"].client().post("/flavors", flavor)
    made = tree.nodes["root"].client().post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    tree.settle(3)
    PlayedAgent(leaf).converge()
    tree.settle(3)
    add_host(leaf, "h2", vcpus=4)
    leaf.zone.heartbeats.write()
    uuid: str = made.json["server"]["id"]
    return tree, uuid


def shown(tree: Tree, uuid: str) -> tuple[str, str]:
    server = tree.nodes["root"].client().get(f"/servers/{uuid}").json["server"]
    return server["status"], server["flavor"]["original_name"]


def actions(tree: Tree, uuid: str) -> list[dict[str, Any]]:
    """The actions on the server, the newest first."""
    path = f"/servers/{uuid}/os-instance-actions"
    lines: list[dict[str, Any]] = tree.nodes["root"].client().get(path).json["instanceActions"]
    return lines


def take(tree: Tree, uuid: str, bodies: Sequence[dict[str, Any]], agents: TwoAgents) -> None:
    """Let all of these actions happen, with retries, unless a zone dies of it."""
    root = tree.nodes["root"]
    with suppress(Killed):
        agents.step(0, 1, 0)
        for body in bodies:
            act(root, uuid, body)
            for _ in range(2):
                tree.settle(2)
                agents.step(0, 1, 0)
            tree.settle(2)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["leaf", "region", "root"])
@pytest.mark.parametrize(
    ("done_before", "bodies", "flavor"),
    [([], [RESIZE, CONFIRM], "large"), ([RESIZE], [REVERT], "small")],
    ids=["resized and confirmed", "reverted"],
)
def test_a_zone_killed_at_any_step_of_a_resize(
    tmp_path: Path,
    victim: str,
    done_before: list[dict[str, Any]],
    bodies: list[dict[str, Any]],
    flavor: str,
) -> None:
    before, uuid = a_server(tmp_path)
    take(before, uuid, done_before, TwoAgents(before))
    ((settle, _),) = bodies[-1].items()
    kill_at, killed = 0, True
    ended: set[tuple[str, str]] = set()
    while killed:
        kill_at += 1
        tree = before.copy_to(tmp_path / str(kill_at))
        tree.poll(2)
        agents = TwoAgents(tree)
        seams = Seams(tree, victim, kill_at)

        take(tree, uuid, bodies, agents)

        killed = seams.killed
        seams.restart()
        for _ in range(4):
            # A worker that died has a lease until then.
            tree.clock.advance(61)
            tree.beat()
            tree.poll(2)
            tree.settle(3)
            agents.step(0, 1, 0)
            if all(line["result"] == "done" for line in actions(tree, uuid)):
                break
        tree.settle(3)
        agents.step(0, 1, 0)
        server = shown(tree, uuid)
        assert server[0] in ("ACTIVE", "VERIFY_RESIZE"), f"killed at {kill_at}"
        assert agents.running == [uuid], f"killed at {kill_at}"
        assert agents.most == 1, f"killed at {kill_at}"
        if server[0] == "VERIFY_RESIZE":
            # The owner's call was lost with the zone.
            act(tree.nodes["root"], uuid, {settle: None})
            for _ in range(2):
                tree.settle(3)
                agents.step(0, 1, 0)
            tree.settle(3)
            server = shown(tree, uuid)
        assert server[0] == "ACTIVE", f"killed at {kill_at}"
        lines = actions(tree, uuid)
        assert all(line["result"] == "done" for line in lines), f"killed at {kill_at}"
        nothing_is_wrong(tree)
        ended.add((lines[0]["action"], server[1]))
    # Killed before it was accepted, it stays as it was.
    assert ended <= {("create", "small"), (settle, flavor)}
    assert (settle, flavor) in ended
    assert kill_at > 5 * len(bodies)
