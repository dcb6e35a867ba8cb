"""A restored zone whose copy is older than one of its children or parents, which its operator adds again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene, a_scene
from zonesched.services import background

pytestmark = pytest.mark.same_statements


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return a_scene(tmp_path)


def add_other(scene: Scene) -> None:
    """Add another child to the root, and let only that one take servers."""
    scene.tree.add("other", parent="root")
    scene.agents["other"] = RealAgent(scene.tree, "other", [a_machine("o1")], "other")
    scene.tree.poll()
    (region,) = [one for one in scene.admin("root").get("/zones").json["zones"] if one["name"] == "region"]
    disabled = {"zone": {"state": "disabled"}}
    assert scene.admin("root").call("PUT", f"/zones/{region['id']}", disabled).status == 200


def add_again(scene: Scene, parent: str = "root") -> None:
    node, user = scene.tree.nodes["other"], f"parent-{parent}"
    form = {"name": "other", "api_url": node.url, "username": user, "password": node.secrets[user]}
    assert scene.admin(parent).post("/zones", {"zone": form}).status == 201


@pytest.mark.parametrize("is_shelved", [True, False], ids=["shelved", "running"])
def test_what_a_child_has_that_is_added_during_the_recovery_is_where_it_runs(
    scene: Scene, is_shelved: bool
) -> None:
    # given a server that has gone to a child which the copy does not have, and one that was booted there
    (moved,) = scene.booted(1)
    if is_shelved:
        scene.act(moved, "shelve")
    copy = scene.copy("root")
    add_other(scene)
    if not is_shelved:
        scene.act(moved, "shelve")
    scene.act(moved, "unshelve")
    (new,) = scene.booted(1)
    running = scene.agents["other"].running
    # when
    scene.restore("root", copy)
    add_again(scene)
    waits = scene.repair("root")
    scene.recovered("root")
    scene.work(6)
    # then
    assert ("neighbour_unheard", "child other") in {(line["kind"], line["subject"]) for line in waits}
    assert scene.servers() == dict.fromkeys((moved, new), "ACTIVE")
    assert scene.agents["other"].running == running
    nothing_is_wrong(scene.tree)
    scene.act(moved, "os-stop")
    assert scene.servers() == {moved: "SHUTOFF", new: "ACTIVE"}


def test_a_parent_that_is_added_during_the_recovery_names_what_it_has_before_that_ends(scene: Scene) -> None:
    # given a leaf whose copy is older than its second parent, which has a server there
    copy = scene.copy("leaf")
    scene.tree.add("second")
    scene.tree.join("second", "leaf")
    scene.tree.poll()
    scene.admin("second").post("/flavors", FLAVOR)
    (uuid,) = scene.booted(1, "second")
    # when the operator of the leaf adds it again, and that of the parent gives it the new secret
    scene.restore("leaf", copy)
    scene.work(1)
    form = {"name": "parent-second", "role": "parent", "project_id": "-"}
    made = scene.admin("leaf").post("/users", {"user": form})
    waits = scene.repair("leaf")
    (child,) = scene.admin("second").get("/zones").json["zones"]
    change = {"zone": {"password": made.json["user"]["secret"]}}
    assert scene.admin("second").call("PUT", f"/zones/{child['id']}", change).status == 200
    scene.recovered("leaf")
    # then
    heard = ("neighbour_unheard", "parent parent-second")
    assert heard in [(line["kind"], line["subject"]) for line in waits]
    assert scene.servers("second") == scene.servers("leaf") == {uuid: "ACTIVE"}
    nothing_is_wrong(scene.tree)


def test_parents_name_what_an_agent_has_that_comes_after_they_were_heard(scene: Scene) -> None:
    # given a copy without the hosts of an agent that is away, and a recovery that waits for its operator
    copy = scene.copy("leaf")
    scene.agents["late"] = RealAgent(scene.tree, "leaf", [a_machine("l3", vcpus=64)], "late")
    scene.work(1)
    (uuid,) = scene.booted(1)
    late = scene.agents.pop("late")
    scene.restore("leaf", copy)
    scene.work(1)
    assert scene.kinds("leaf") == {"recovery_open"}
    # when it is back, and the operator is quick
    late.step()
    waits = scene.repair("leaf")
    scene.agents["late"] = late
    scene.recovered("leaf")
    # then
    assert {line["subject"] for line in waits} == {"parent parent-region"}
    assert late.uuids() == {uuid}
    assert scene.servers() == scene.servers("leaf") == {uuid: "ACTIVE"}
    nothing_is_wrong(scene.tree)


def test_parents_name_what_a_child_has_that_is_added_after_they_were_heard(scene: Scene) -> None:
    # given a region whose copy is older than one of its children, and that waits for its operator
    copy = scene.copy("region")
    scene.tree.add("other", parent="region")
    scene.agents["other"] = RealAgent(scene.tree, "other", [a_machine("o1", vcpus=64)], "other")
    scene.tree.poll()
    (uuid,) = scene.booted(1)
    assert scene.agents["other"].uuids() == {uuid}
    scene.restore("region", copy)
    scene.work(1)
    assert scene.kinds("region") == {"recovery_open"}
    # when it is added, and heard before the parent polls
    add_again(scene, "region")
    background.poll_children(scene.tree.nodes["region"].zone)
    waits = scene.repair("region")
    scene.recovered("region")
    # then
    assert "parent parent-root" in {line["subject"] for line in waits}
    assert scene.servers() == scene.servers("region") == {uuid: "ACTIVE"}
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("is_shelved", [True, False], ids=["shelved", "running"])
def test_a_server_in_a_child_that_is_added_after_the_recovery_is_restored_by_a_repair(
    scene: Scene, is_shelved: bool
) -> None:
    # given a server that has gone to a child which the copy does not have, and that was stopped there
    (uuid,) = scene.booted(1)
    if is_shelved:
        scene.act(uuid, "shelve")
    copy = scene.copy("root")
    add_other(scene)
    if not is_shelved:
        scene.act(uuid, "shelve")
    for action in ("unshelve", "os-stop"):
        scene.act(uuid, action)
    running = scene.agents["other"].running
    # when the child is added only after the recovery has found the server nowhere
    scene.restore("root", copy)
    scene.recovered("root")
    lost = scene.servers()
    add_again(scene)
    scene.work()
    (restored,) = scene.repair("root")
    scene.work(6)
    # then
    assert lost == {uuid: "SHELVED_OFFLOADED" if is_shelved else "ERROR"}
    assert (restored["kind"], restored["repaired"]) == ("child_has_unknown_instance", True)
    assert scene.agents["other"].running == running
    assert scene.servers() == {uuid: "SHUTOFF"}
    nothing_is_wrong(scene.tree)
    for action, status in (("os-start", "ACTIVE"), ("shelve", "SHELVED_OFFLOADED"), ("unshelve", "ACTIVE")):
        scene.act(uuid, action)
        assert scene.servers() == {uuid: status}
    nothing_is_wrong(scene.tree)


def test_a_parents_server_in_a_child_that_is_added_after_the_recovery_runs_on_and_may_be_adopted(
    scene: Scene,
) -> None:
    # given a parent's server that has gone to a child which the copy of the region does not have
    (uuid,) = scene.booted(1)
    copy = scene.copy("region")
    scene.tree.add("other", parent="region")
    scene.agents["other"] = RealAgent(scene.tree, "other", [a_machine("o1", vcpus=64)], "other")
    scene.tree.poll()
    for action in ("shelve", "unshelve"):
        scene.act(uuid, action)
    assert scene.agents["other"].uuids() == {uuid}
    # when that is added only after the recovery
    scene.restore("region", copy)
    scene.recovered("region")
    add_again(scene, "region")
    scene.work()
    (left,) = scene.repair("region")
    scene.work(6)
    # then it runs on, and another recovery asks its parent
    assert (left["kind"], left["repaired"]) == ("child_has_unknown_instance", False)
    assert "zonesched db restored" in left["action"]
    assert scene.agents["other"].uuids() == {uuid}
    scene.restore("region", scene.copy("region"))
    scene.recovered("region")
    assert [scene.servers(name) for name in ("root", "region", "other")] == [{uuid: "ACTIVE"}] * 3
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("is_again", [False, True], ids=["a repair", "another recovery"])
def test_a_server_on_a_host_whose_agent_comes_after_the_recovery_is_its_owners_again(
    scene: Scene, is_again: bool
) -> None:
    # given a server that was moved to a host which the copy does not have, and stopped there
    (uuid,) = scene.booted(1, "leaf")
    copy = scene.copy("leaf")
    scene.agents["late"] = RealAgent(scene.tree, "leaf", [a_machine("l3", vcpus=64)], "late")
    scene.work(1)
    for action in ({"migrate": {"host": "l3"}}, {"os-stop": None}):
        assert scene.admin("leaf").post(f"/servers/{uuid}/action", action).status == 202
        scene.work(6)
    late = scene.agents.pop("late")
    running = late.running
    assert late.uuids() == {uuid}
    # when its agent was away while the zone recovered, and is back
    scene.restore("leaf", copy)
    scene.recovered("leaf")
    lost = scene.servers("leaf")
    scene.agents["late"] = late
    scene.work(2)
    listed = scene.kinds("leaf")
    if is_again:
        scene.restore("leaf", scene.copy("leaf"))
    scene.recovered("leaf")
    # then
    assert (lost, listed) == ({uuid: "ERROR"}, {"restored_instance_elsewhere"})
    assert late.running == running
    assert scene.servers("leaf") == {uuid: "SHUTOFF"}
    assert scene.claimed_vcpus("leaf") == 2
    nothing_is_wrong(scene.tree)
    assert scene.admin("leaf").post(f"/servers/{uuid}/action", {"os-start": None}).status == 202
    scene.work()
    assert scene.servers("leaf") == {uuid: "ACTIVE"}
    scene.delete({uuid}, "leaf")
    assert late.uuids() == set()
