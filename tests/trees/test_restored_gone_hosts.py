"""A restored zone whose servers were on their way from or to a host that is gone for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene, a_tree
from tests.builders.wsgi_transport import Dead

pytestmark = pytest.mark.same_statements
LARGE: dict[str, dict[str, Any]] = {
    "flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}
}


def a_scene(folder: Path, zone: str = "root") -> tuple[Scene, str]:
    """A server of this zone on l1 in the leaf, and room on l2; each host has an agent of its own."""
    scene = Scene(a_tree(folder))
    scene.admin("root").post("/flavors", LARGE)
    scene.agents["l1"] = RealAgent(scene.tree, "leaf", [a_machine("l1", vcpus=2)], "l1")
    scene.tree.poll()
    (uuid,) = scene.booted(1, zone)
    scene.agents["l2"] = RealAgent(scene.tree, "leaf", [a_machine("l2")], "l2")
    scene.tree.poll()
    return scene, uuid


def act(scene: Scene, zone: str, uuid: str, action: dict[str, Any]) -> None:
    """Begin an action; no agent hears of it yet."""
    assert scene.admin(zone).post(f"/servers/{uuid}/action", action).status in (202, 204)
    for _ in range(3):
        scene.tree.poll(2)
        scene.tree.settle()


def migrate(scene: Scene) -> None:
    (below,) = scene.servers("leaf")
    act(scene, "leaf", below, {"migrate": None})


def go_to(scene: Scene, uuid: str, kind: str, step: str) -> None:
    """Let the move of the server from l1 to l2 go on to this step."""
    if kind == "migration":
        migrate(scene)
    else:
        act(scene, "root", uuid, {"resize": {"flavorRef": "large"}})
    if step != "leaving":
        scene.agents["l1"].work()
    if step in ("verifying", "returning"):
        scene.agents["l2"].work()
        scene.work()
    if step == "returning":
        act(scene, "root", uuid, {"revertResize": None})
    assert sql(scene.tree.nodes["leaf"].zone, "select state from moves") == [(step,)]


def give_up(scene: Scene, name: str) -> int:
    """Say that a host is gone for good, as documented; return the status of the answer to its removal."""
    operator = scene.admin("leaf")
    scene.agents.pop(name, None)
    services = operator.get("/os-services?binary=nova-compute").json["services"]
    (id_,) = [service["id"] for service in services if service["host"] == name]
    assert operator.call("PUT", f"/os-services/{id_}", {"forced_down": True}).status == 200
    assert operator.post(f"/os-services/{id_}/action", {"evacuate": {"fenced": True}}).status == 202
    return operator.delete(f"/os-services/{id_}").status


def outcome(scene: Scene, uuid: str) -> tuple[str, str, dict[str, list[int]]]:
    """Status and flavor that the owner sees, and the attempts that run, by agent."""
    server = scene.admin("root").get(f"/servers/{uuid}").json["server"]
    running = {name: [key.attempt for key in agent.running] for name, agent in scene.agents.items()}
    return server["status"], server["flavor"]["original_name"], running


STEPS = [
    ("migration", "leaving"),
    ("migration", "arriving"),
    ("resize", "leaving"),
    ("resize", "arriving"),
    ("resize", "verifying"),
    ("resize", "returning"),
]


@pytest.mark.parametrize(("kind", "step"), STEPS)
def test_a_server_on_its_way_to_it_is_back_at_its_old_host(tmp_path: Path, kind: str, step: str) -> None:
    scene, uuid = a_scene(tmp_path)
    go_to(scene, uuid, kind, step)
    scene.restore("leaf", scene.copy("leaf"))

    removed = give_up(scene, "l2")
    scene.recovered("leaf")
    scene.work(6)

    assert (removed, scene.health("leaf")) == (204, "ok")
    assert outcome(scene, uuid) == ("ACTIVE", "small", {"l1": [1]})
    assert scene.claimed_vcpus("leaf") == 2
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(
    ("kind", "step", "status", "flavor", "running"),
    [
        # placed anew, as nothing had left the host
        ("migration", "leaving", "ACTIVE", "small", [3]),
        ("resize", "leaving", "ACTIVE", "small", [3]),
        # stopped on the host, and not yet built on the other one
        ("migration", "arriving", "ERROR", "small", []),
        ("resize", "arriving", "ERROR", "small", []),
        ("resize", "verifying", "ACTIVE", "large", [2]),
        ("resize", "returning", "ACTIVE", "large", [2]),
    ],
)
def test_a_server_on_its_way_from_it_is_where_its_new_host_has_it(
    tmp_path: Path, kind: str, step: str, status: str, flavor: str, running: list[int]
) -> None:
    scene, uuid = a_scene(tmp_path)
    go_to(scene, uuid, kind, step)
    scene.restore("leaf", scene.copy("leaf"))

    removed = give_up(scene, "l1")
    scene.recovered("leaf")
    scene.work(6)

    assert (removed, scene.health("leaf")) == (204, "ok")
    assert outcome(scene, uuid) == (status, flavor, {"l2": running})
    assert scene.claimed_vcpus("leaf") == (0 if not running else 4 if flavor == "large" else 2)
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(
    ("kind", "step", "hosts"),
    [
        ("migration", "arriving", ("l2", "l1")),
        ("resize", "arriving", ("l1", "l2")),
        ("resize", "verifying", ("l1", "l2")),
        ("resize", "verifying", ("l2", "l1")),
        ("resize", "returning", ("l1", "l2")),
    ],
)
def test_a_server_of_two_such_hosts_is_placed_anew(
    tmp_path: Path, kind: str, step: str, hosts: tuple[str, str]
) -> None:
    scene, uuid = a_scene(tmp_path)
    scene.agents["r1"] = RealAgent(scene.tree, "root", [a_machine("r1")], "r1")
    go_to(scene, uuid, kind, step)
    scene.restore("leaf", scene.copy("leaf"))

    removed = [give_up(scene, name) for name in hosts]
    scene.recovered("leaf")
    scene.work(6)

    assert removed == [204, 204]
    assert outcome(scene, uuid)[::2] == ("ACTIVE", {"r1": [2]})
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["root", "leaf"])
@pytest.mark.parametrize("is_moving", [False, True])
def test_a_server_that_has_left_it_since_the_copy_runs_and_takes_actions(
    tmp_path: Path, zone: str, is_moving: bool
) -> None:
    # given a server that was moved away before its host died, as the copy does not know
    scene, uuid = a_scene(tmp_path, zone)
    before = scene.copy("leaf")
    migrate(scene)
    copy = scene.copy("leaf") if is_moving else before
    scene.work(6)
    # when
    scene.restore("leaf", copy)
    removed = give_up(scene, "l1")
    scene.recovered("leaf")
    scene.work(6)
    # then
    assert removed == 204
    assert scene.servers(zone) == {uuid: "ACTIVE"}
    assert scene.agents["l2"].driver.spawned == [*scene.agents["l2"].running]
    act(scene, zone, uuid, {"os-stop": None})
    scene.work()
    assert scene.servers(zone) == {uuid: "SHUTOFF"}
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(("zone", "child"), [("root", "region"), ("region", "leaf")])
def test_an_evacuation_after_an_action_that_a_restored_parent_lacks_is_no_shelve(
    tmp_path: Path, zone: str, child: str
) -> None:
    # given a host that was lost in a child while its parent was down, which is put back from an older copy
    scene, uuid = a_scene(tmp_path)
    copy = scene.copy(zone)
    scene.act(uuid, "os-stop")
    scene.act(uuid, "os-start")
    scene.tree.network.fault(scene.tree.nodes[child].url, Dead())
    assert give_up(scene, "l1") == 204
    scene.work()
    scene.tree.network.heal(scene.tree.nodes[child].url)
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    scene.work(6)
    # then
    assert outcome(scene, uuid) == ("ACTIVE", "small", {"l2": [2]})
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("is_in_copy", [True, False])
@pytest.mark.parametrize(("how", "status"), [("evacuated", "ACTIVE"), ("shelved", "SHELVED_OFFLOADED")])
def test_a_server_that_left_a_later_place_than_a_restored_parent_has_is_as_it_left_it(
    tmp_path: Path, how: str, status: str, is_in_copy: bool
) -> None:
    # given a parent that was down when a server left the second place that it got since the copy
    scene, uuid = a_scene(tmp_path)
    copy = scene.copy("root")
    if not is_in_copy:
        scene.delete({uuid})
        (uuid,) = scene.booted(1)
    scene.agents["l3"] = RealAgent(scene.tree, "leaf", [a_machine("l3")], "l3")
    scene.tree.poll()
    assert give_up(scene, host_of(scene, uuid)) == 204
    scene.work(6)
    if how == "shelved":
        act(scene, "root", uuid, {"shelve": None})
    scene.tree.network.fault(scene.tree.nodes["region"].url, Dead())
    if how == "evacuated":
        assert give_up(scene, host_of(scene, uuid)) == 204
        scene.agents["l4"] = RealAgent(scene.tree, "leaf", [a_machine("l4")], "l4")
    scene.work()
    scene.tree.network.heal(scene.tree.nodes["region"].url)
    # when
    scene.restore("root", copy)
    scene.recovered("root")
    scene.work(6)
    # then
    assert scene.servers()[uuid] == status
    act(scene, "root", uuid, {"os-stop" if how == "evacuated" else "unshelve": None})
    scene.work(6)
    assert scene.servers()[uuid] == ("SHUTOFF" if how == "evacuated" else "ACTIVE")
    nothing_is_wrong(scene.tree)


def host_of(scene: Scene, uuid: str) -> str:
    (name,) = (name for name, agent in scene.agents.items() if uuid in agent.uuids())
    return name
