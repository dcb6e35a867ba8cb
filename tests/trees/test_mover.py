"""Order of the moves of one zone, and moves whose steps fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.moving import act, add_host, states
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.services.audit import audit
from zonesched.services.moves import mover

OTHER = {"user": {"name": "other", "role": "member", "project_id": "other"}}
HELD, NOT_YET = ["confirmed", "held"], ["confirmed"]


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """Three servers of a member, and one of another project, on a host; a second one has room."""
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=8)])
    node.client().post("/flavors", FLAVOR)
    node.secrets["other"] = node.client().post("/users", OTHER).json["user"]["secret"]
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["leaf"]


def servers(tree: Tree, node: Node) -> tuple[list[str], str]:
    """Servers on the first host: those of the member, and the one of the other project."""
    users = ("member", "member", "member", "other")
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    uuids = [node.client(user).post("/servers", body).json["server"]["id"] for user in users]
    tree.settle()
    PlayedAgent(node).converge()
    add_host(node, "h2", vcpus=8)
    return uuids[:3], uuids[3]


def move(tree: Tree, node: Node, *uuids: str) -> None:
    for uuid in uuids:
        assert act(node, uuid, {"migrate": None}).status == 202
        tree.clock.advance(1.0)


def test_a_move_of_one_project_waits_for_no_more_than_the_next_ones_of_another(
    tree: Tree, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    mine, others = servers(tree, node)
    move(tree, node, *mine, others)
    monkeypatch.setattr(mover, "BATCH", 2)
    # when
    pause_s = mover.work(node.zone)
    # then
    assert pause_s == 0.0
    assert [states(node, uuid) for uuid in (*mine, others)] == [HELD, NOT_YET, NOT_YET, HELD]


def test_moves_whose_steps_fail_keep_no_other_one_waiting(
    tree: Tree, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a move that no agent has reported in time, whose next step fails, and later moves
    mine, _ = servers(tree, node)
    move(tree, node, mine[0])
    monkeypatch.setattr(mover, "BATCH", 1)
    mover.work(node.zone)
    tree.clock.advance(node.zone.conf.instance_build_timeout + 1)
    move(tree, node, *mine[1:])
    # when
    with monkeypatch.context() as broken:
        broken.setattr(mover, "_end_overdue", lambda zone, move, tx: 1 / 0)
        for _ in range(3):
            mover.work(node.zone)
    # then
    assert [states(node, uuid) for uuid in mine[1:]] == [HELD, HELD]
    tree.clock.advance(node.zone.conf.boot_lease + 1)
    while mover.work(node.zone) == 0.0:
        pass
    assert states(node, mine[0]) == ["confirmed", "gone"]
    assert audit.run(node.zone) == []
