"""Rebuilds of unknown outcome, whose zone was put back from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import nothing_is_wrong
from tests.builders.restored import Scene, a_scene

pytestmark = pytest.mark.same_statements

NEWER = {"image": {"id": "newer", "name": "newer"}}
REBUILD: dict[str, Any] = {"rebuild": {"imageRef": "newer"}}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = a_scene(tmp_path)
    for name in scene.tree.nodes:
        assert scene.admin(name).post("/images", NEWER).status == 201
    return scene


def ask(scene: Scene, uuid: str, action: dict[str, Any]) -> None:
    answer = scene.admin("root").post(f"/servers/{uuid}/action", action)
    assert answer.status == 202, answer.body


def images(scene: Scene, uuid: str) -> set[tuple[str, str]]:
    """Status and image in each zone."""
    servers = [scene.admin(name).get(f"/servers/{uuid}").json["server"] for name in scene.tree.nodes]
    return {(server["status"], server["image"]["id"] if server["image"] else "") for server in servers}


@pytest.mark.parametrize("zones", [["leaf"], ["region", "leaf"]])
@pytest.mark.parametrize("fails", [False, True])
def test_a_rebuild_that_the_copy_lacks_is_not_done_again_below_an_action_of_the_copy(
    scene: Scene, zones: list[str], fails: bool
) -> None:
    # given a copy in which a server is to be paused, which has ended since
    (uuid,) = scene.booted(1)
    ask(scene, uuid, {"pause": None})
    scene.tree.settle(1)
    copies = {zone: scene.copy(zone) for zone in zones}
    scene.work(6)
    ask(scene, uuid, {"unpause": None})
    scene.work(6)
    # and a rebuild that its agent has done, and of which the zone above the copies has not heard
    ask(scene, uuid, REBUILD)
    scene.tree.settle(1)
    scene.agents["leaf"].work()
    # when the zones are put back, and what is asked for again fails or does not
    for zone, copy in copies.items():
        scene.restore(zone, copy)
    scene.work(1)
    scene.agents["leaf"].work()
    if fails:
        scene.agents["leaf"].builds(failure_rate=1.0)
    for zone in reversed(zones):
        scene.recovered(zone)
    scene.work(8)
    # then all zones know the image that it has
    assert {image for _, image in images(scene, uuid)} == {"newer"}
    # and its agent has rebuilt it no second time
    assert scene.agents["leaf"].rebuilds(uuid) == 1
    nothing_is_wrong(scene.tree)
