"""Shelve and unshelve of servers below: they leave their zone whole before they are placed in any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.boots import a_running_tree, a_small_tree, all_active, boot, settle_until_killed, the_boot
from tests.builders.crashes import Seams
from tests.builders.tree import Tree
from tests.builders.wsgi_transport import Dead, Duplicate, Fault, LostReply
from tests.trees.test_actions_in_tree import Scene
from zonesched.services.audit import audit, audit_edges

pytestmark = pytest.mark.same_statements

SHELVE, UNSHELVE = {"shelve": None}, {"unshelve": None}
COUNT = 3


def a_scene(folder: Path, count: int = COUNT) -> Scene:
    """Few servers in a tree with room for twelve."""
    tree = a_running_tree(folder, count)
    return Scene(tree, the_boot(tree))


def places(scene: Scene) -> Iterator[tuple[str, str]]:
    """Zone and server of everything that an agent is to run."""
    for name, agent in scene.agents.items():
        agent.node = scene.tree.nodes[name]
        for line in agent.work():
            yield name, str(line["uuid"])


def zone_of(scene: Scene, uuid: str) -> str:
    (zone,) = [name for name, one in places(scene) if one == uuid]
    return zone


def differences(tree: Tree) -> list[object]:
    found: list[object] = []
    for node in tree.nodes.values():
        found += audit.run(node.zone)
        found += audit_edges.across_edges(node.zone)
    return found


def full(scene: Scene, zone: str) -> None:
    """Leave no room on the hosts of a zone."""
    for host in scene.tree.nodes[zone].client().get("/os-services?binary=nova-compute").json["services"]:
        path = f"/os-services/{host['id']}"
        scene.tree.nodes[zone].client().call("PUT", path, {"status": "disabled"})
    scene.tree.poll()


def test_a_server_leaves_its_zone_and_comes_back_in_another(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, 12)
    uuid = scene.in_zone("leaf-a")
    elsewhere = next(one for zone, one in places(scene) if zone == "leaf-b")

    for one in (uuid, elsewhere):
        scene.act(one, SHELVE)
    scene.go_on()
    resting = (scene.statuses(), sorted(places(scene)))
    full(scene, "leaf-a")
    scene.act(uuid, UNSHELVE)
    scene.go_on()

    assert resting[0] == {"ACTIVE": 10, "SHELVED_OFFLOADED": 2}
    assert not {uuid, elsewhere} & {one for _, one in resting[1]}
    assert zone_of(scene, uuid) == "leaf-b"
    assert scene.results(uuid) == [("shelve", "done", ""), ("unshelve", "done", "")]
    assert scene.statuses() == {"ACTIVE": 11, "SHELVED_OFFLOADED": 1}
    assert differences(scene.tree) == []


@pytest.mark.slow
def test_a_server_comes_back_to_the_zone_that_it_left(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, 12)
    uuid = scene.in_zone("leaf-a")
    scene.act(uuid, {"reboot": {"type": "HARD"}})
    scene.go_on()

    for body in (SHELVE, UNSHELVE, SHELVE, UNSHELVE, {"os-stop": None}):
        assert scene.act(uuid, body).status == 202
        scene.go_on()

    assert zone_of(scene, uuid) == "leaf-a"
    assert [result for _, result, _ in scene.results(uuid)] == ["done"] * 6
    assert scene.statuses() == {"ACTIVE": 11, "SHUTOFF": 1}
    assert scene.reboots() == {uuid: 1}
    assert differences(scene.tree) == []


def test_a_shelve_waits_for_the_agent_and_so_does_the_unshelve(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-b")
    agent = scene.agents.pop("leaf-b")

    scene.act(uuid, SHELVE)
    scene.go_on()
    unshelved = scene.act(uuid, UNSHELVE)
    waiting = (scene.results(uuid), unshelved.json["conflictingRequest"]["error_code"])
    scene.agents["leaf-b"] = agent
    scene.go_on()

    assert waiting == ([("shelve", None, "")], "still_shelving")
    assert scene.results(uuid) == [("shelve", "done", "")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LostReply, Duplicate, Dead])
@pytest.mark.parametrize("edge", ["region", "leaf-a"])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_whatever_becomes_of_the_calls(tmp_path: Path, edge: str, kind: type[Fault], method: str) -> None:
    scene = a_scene(tmp_path, 12)
    uuid = scene.in_zone("leaf-a")
    scene.tree.network.fault(scene.tree.nodes[edge].url, kind(times=2, method=method, path="/servers/"))

    for body in (SHELVE, UNSHELVE):
        scene.act(uuid, body)
        scene.go_on(5)

    assert scene.results(uuid) == [("shelve", "done", ""), ("unshelve", "done", "")]
    assert zone_of(scene, uuid) == "leaf-a"
    assert scene.statuses() == {"ACTIVE": 12}
    assert differences(scene.tree) == []


def test_a_delete_of_the_old_place_that_comes_late_leaves_the_new_one(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, 12)
    uuid = scene.in_zone("leaf-b")
    scene.act(uuid, SHELVE)
    scene.go_on()
    (late,) = [one for one in scene.tree.network.sent if f"{uuid}?attempt=" in one.url]
    scene.act(uuid, UNSHELVE)
    scene.go_on()
    assert zone_of(scene, uuid) == "leaf-b"

    leaf = scene.tree.nodes["leaf-b"]
    reply = leaf.client("parent-root").delete(late.url.removeprefix(leaf.url))
    scene.go_on()

    assert (reply.status, reply.json["itemNotFound"]["error_code"]) == (404, "instance_not_found")
    assert scene.statuses() == {"ACTIVE": 12}


def test_a_zone_in_the_middle_shelves_no_server_of_its_parent(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, 12)
    uuid = scene.in_zone("leaf-a")

    replies = [
        scene.tree.nodes[zone].client().post(f"/servers/{uuid}/action", SHELVE)
        for zone in ("region", "leaf-a")
    ]

    assert [one.json["conflictingRequest"]["error_code"] for one in replies] == ["server_of_parent"] * 2


def test_a_child_that_is_removed_after_a_shelve_takes_nothing_with_it(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-b")
    scene.act(uuid, SHELVE)
    scene.go_on()
    root = scene.root.client()
    (child,) = [z for z in root.get("/zones/detail").json["zones"] if z["name"] == "leaf-b"]

    removed = root.delete(f"/zones/{child['id']}?force=1")
    scene.act(uuid, UNSHELVE)
    scene.go_on()

    assert removed.status == 204
    assert scene.results(uuid)[-1] == ("unshelve", "done", "")
    assert zone_of(scene, uuid) in ("root", "leaf-a")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["root", "region", "leaf-a"])
@pytest.mark.parametrize("body", [SHELVE, UNSHELVE])
def test_a_zone_killed_at_any_step(tmp_path: Path, victim: str, body: dict[str, None]) -> None:
    before = a_scene(tmp_path)
    uuid = before.in_zone("leaf-a")
    if body == UNSHELVE:
        before.act(uuid, SHELVE)
        before.go_on()
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        scene = Scene(before.tree.copy_to(tmp_path / str(kill_at)), before.reservation_id)
        scene.tree.poll()
        assert scene.act(uuid, body).status == 202
        seams = Seams(scene.tree, victim, kill_at)

        killed = settle_until_killed(scene.tree, seams)

        scene.recover()
        assert scene.results(uuid)[-1][1:] == ("done", ""), f"killed at {kill_at}"
        resting = {"SHELVED_OFFLOADED": 1} if body == SHELVE else {}
        assert scene.statuses() == {"ACTIVE": COUNT - len(resting), **resting}, f"killed at {kill_at}"
        assert [one for _, one in places(scene)].count(uuid) == 1 - len(resting)
        assert differences(scene.tree) == [], f"killed at {kill_at}"
    assert kill_at > 3


def a_shelved_part(folder: Path, **server: object) -> tuple[Tree, Scene]:
    """A boot of twelve: a child has not answered the confirms of some yet, and a server of the rest rests."""
    tree = a_small_tree(folder)
    tree.network.fault(tree.nodes["leaf-b"].url, Dead(path="/confirm"))
    scene = Scene(tree, boot(tree, **server))
    tree.settle()
    all_active(tree)
    tree.settle(3)
    scene.act(scene.in_zone("leaf-a"), SHELVE)
    scene.go_on(1)
    assert {"SHELVED_OFFLOADED": 1, "UNKNOWN": 4}.items() <= scene.statuses().items()
    return tree, scene


@pytest.mark.parametrize("is_unshelved", [False, True])
def test_a_batch_that_cannot_be_whole_ends_with_what_was_shelved_of_it(
    tmp_path: Path, is_unshelved: bool
) -> None:
    # given a batch of all or nothing whose holds in a child are over, with no other place
    tree, scene = a_shelved_part(tmp_path)
    for zone in tree.nodes:
        full(scene, zone)
    (resting,) = [uuid for uuid in scene.uuids if scene.results(uuid)]
    if is_unshelved:
        assert scene.act(resting, UNSHELVE).status == 202
    # when the child says so
    tree.clock.advance(60)
    tree.settle(1)
    tree.network.heal(tree.nodes["leaf-b"].url)
    scene.go_on(6)
    # then nothing is left of it
    assert scene.statuses() == {"ERROR": 12}
    assert all(result for _, result, _ in scene.results(resting))
    assert list(places(scene)) == []
    assert differences(tree) == []


def test_what_was_shelved_counts_among_the_least_that_a_boot_must_have(tmp_path: Path) -> None:
    # given a boot that may do without what a child has not confirmed
    tree, scene = a_shelved_part(tmp_path, min_count=8)
    for zone in tree.nodes:
        full(scene, zone)
    # when the holds there are over
    tree.clock.advance(60)
    tree.settle(1)
    tree.network.heal(tree.nodes["leaf-b"].url)
    scene.go_on(6)
    # then the others stay
    assert scene.statuses() == {"ACTIVE": 7, "SHELVED_OFFLOADED": 1, "ERROR": 4}
    assert differences(tree) == []
