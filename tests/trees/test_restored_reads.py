"""Reads of a restored zone before its recovery has ended: they show its rows, and change none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import nothing_is_wrong
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene, a_tree

pytestmark = pytest.mark.same_statements


def test_a_server_that_is_looked_at_during_the_recovery_is_where_it_runs_after_it(tmp_path: Path) -> None:
    # given a server that has gone from one child to another one since the copy
    scene = Scene(a_tree(tmp_path))
    scene.agents["leaf"] = RealAgent(scene.tree, "leaf", [a_machine("l1")])
    scene.tree.poll()
    (uuid,) = scene.booted(1)
    scene.tree.add("other", parent="root")
    scene.agents["other"] = RealAgent(scene.tree, "other", [a_machine("o1", vcpus=64)], "other")
    scene.tree.poll()
    copy = scene.copy("root")
    for action in ("shelve", "unshelve"):
        scene.act(uuid, action)
    running = scene.agents["other"].running
    assert {key.uuid for key in running} == {uuid}
    # when its owner looks at it while the zone recovers, and the child of the copy has it no more
    scene.restore("root", copy)
    scene.tree.poll()
    shown = scene.admin("root").get(f"/servers/{uuid}").json["server"]
    scene.recovered("root")
    # then it was shown as it was, and is as it runs
    assert shown["status"] == "ACTIVE"
    assert scene.servers() == {uuid: "ACTIVE"}
    assert scene.agents["other"].running == running
    nothing_is_wrong(scene.tree)
