"""Acts wake the loops that go on with them: else their work would wait for the end of a pause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.wsgi_transport import Dead
from tests.trees.test_actions_in_tree import Scene, a_scene
from zonesched.services import background
from zonesched.services.state.wake import Wake


class NotedLoop:
    """A loop that notes its name each time it is woken."""

    def __init__(self, name: str, woken: set[str]) -> None:
        self._name, self._woken = name, woken

    def wake(self) -> bool:
        self._woken.add(self._name)
        return True


def noted(wake: Wake) -> set[str]:
    """The names of the loops that are woken from now on."""
    woken: set[str] = set()
    loops = {
        "boots": wake.boot_loops,
        "child calls": wake.child_call_loops,
        "sync": wake.sync_loops,
        "moves": wake.move_loops,
    }
    for name, listening in loops.items():
        listening.append(NotedLoop(name, woken))
    return woken


def region(scene: Scene) -> str:
    """The path of the child that has servers."""
    zones = scene.root.client().get("/zones/detail").json["zones"]
    (found,) = [one["id"] for one in zones if one["name"] == "region"]
    return f"/zones/{found}"


def drain(scene: Scene) -> None:
    path = region(scene)
    assert scene.root.client().call("PUT", path, {"zone": {"state": "disabled"}}).status == 200
    assert scene.root.client().post(f"{path}/action", {"drain": {"count": 1}}).json["drain"]["asked"]


def remove_by_force(scene: Scene) -> None:
    assert scene.root.client().delete(f"{region(scene)}?force=true").status == 204


def come_back(scene: Scene) -> None:
    url = scene.tree.nodes["region"].url
    scene.tree.network.fault(url, Dead())
    for _ in range(3):
        scene.tree.clock.advance(60.0)
        background.poll_children(scene.root.zone)
    scene.tree.network.heal(url)
    scene.tree.clock.advance(600.0)
    background.poll_children(scene.root.zone)


def stop(scene: Scene) -> None:
    assert scene.act(scene.in_zone("leaf-a"), {"os-stop": None}).status == 202


def delete(scene: Scene) -> None:
    assert scene.root.client().delete(f"/servers/{scene.in_zone('leaf-a')}").status == 204


@pytest.mark.parametrize(
    ("act", "loops"),
    [
        (stop, {"child calls"}),
        (delete, {"child calls"}),
        (drain, {"child calls"}),
        (remove_by_force, {"boots"}),
        (come_back, {"boots", "child calls", "sync"}),
    ],
)
def test_an_act_wakes_who_goes_on_with_it(
    tmp_path: Path, act: Callable[[Scene], None], loops: set[str]
) -> None:
    scene = a_scene(tmp_path)
    woken = noted(scene.root.zone.wake)

    act(scene)

    assert woken == loops
