"""A restored child whose host comes back with a server that has left it since the copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import nothing_is_wrong
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene, a_tree

pytestmark = pytest.mark.same_statements


def a_scene(folder: Path, home: str, refuge: str) -> tuple[Scene, str]:
    """A server on the host of one zone of a tree, and a host of another zone where it has room as well."""
    scene = Scene(a_tree(folder))
    scene.agents[home] = RealAgent(scene.tree, home, [a_machine("h1")])
    scene.tree.poll()
    (uuid,) = scene.booted(1)
    scene.agents[refuge] = RealAgent(scene.tree, refuge, [a_machine("h2")])
    scene.tree.poll()
    return scene, uuid


def lose_host(scene: Scene, zone: str) -> None:
    """Evacuate the host of a zone, whose operator has powered it off."""
    (host,) = scene.admin(zone).get("/os-services?binary=nova-compute").json["services"]
    path = f"/os-services/{host['id']}"
    assert scene.admin(zone).call("PUT", path, {"forced_down": True}).status == 200
    assert scene.admin(zone).post(f"{path}/action", {"evacuate": {"fenced": True}}).status == 202


@pytest.mark.parametrize("how", ["evacuated", "shelved and unshelved", "shelved", "deleted"])
def test_it_ends_what_its_owner_has_elsewhere_or_no_more(tmp_path: Path, how: str) -> None:
    # given a server that has left a leaf since a copy of it, while the agent was away
    scene, uuid = a_scene(tmp_path, "leaf", "root")
    root = scene.admin("root")
    copy = scene.copy("leaf")
    back = scene.agents.pop("leaf")
    if how == "deleted":
        assert root.delete(f"/servers/{uuid}").status == 204
    elif how != "evacuated":
        assert root.post(f"/servers/{uuid}/action", {"shelve": None}).status == 202
        scene.work()
    lose_host(scene, "leaf")
    scene.work()
    if how == "shelved and unshelved":
        assert root.post(f"/servers/{uuid}/action", {"unshelve": None}).status == 202
        scene.work()
    elsewhere = {uuid} if how in ("evacuated", "shelved and unshelved") else set()
    assert scene.agents["root"].uuids() == elsewhere
    before = scene.servers()
    # when the leaf is restored, and the agent comes back with it
    scene.restore("leaf", copy)
    scene.agents["leaf"] = back
    scene.recovered("leaf")
    scene.work(6)
    # then it runs once or not at all, as its owner wants
    assert back.uuids() == set()
    assert scene.agents["root"].uuids() == elsewhere
    assert scene.servers() == before
    assert scene.claimed_vcpus("leaf") == 0
    nothing_is_wrong(scene.tree)


def test_it_ends_what_its_parent_has_placed_anew_in_a_zone_below(tmp_path: Path) -> None:
    # given a server on a region's own host, which was evacuated to a leaf below since a copy of the region
    scene, uuid = a_scene(tmp_path, "region", "leaf")
    copy = scene.copy("region")
    back = scene.agents.pop("region")
    lose_host(scene, "region")
    scene.work()
    assert scene.agents["leaf"].uuids() == {uuid}
    before = scene.servers()
    # when the region is restored, and the agent comes back with the server
    scene.restore("region", copy)
    scene.agents["region"] = back
    scene.recovered("region")
    scene.work(6)
    # then it runs where its parent has placed it
    assert (back.uuids(), scene.agents["leaf"].uuids()) == (set(), {uuid})
    assert scene.servers() == before
    assert scene.claimed_vcpus("region") == 0
    nothing_is_wrong(scene.tree)


def test_one_whose_zones_have_all_forgotten_that_it_left_is_ended_at_one_of_two_places(
    tmp_path: Path,
) -> None:
    # given a server that was evacuated to another child of the root since the copies of its former zones
    scene = Scene(a_tree(tmp_path))
    scene.agents["leaf"] = RealAgent(scene.tree, "leaf", [a_machine("h1")])
    scene.tree.poll()
    (uuid,) = scene.booted(1)
    scene.tree.add("other", parent="root")
    scene.agents["other"] = RealAgent(scene.tree, "other", [a_machine("o1")])
    scene.tree.poll()
    copies = {zone: scene.copy(zone) for zone in ("leaf", "region", "root")}
    back = scene.agents.pop("leaf")
    lose_host(scene, "leaf")
    scene.work(6)
    assert scene.agents["other"].uuids() == {uuid}
    # when all of these are restored, and its agent comes back with it
    for zone, copy in copies.items():
        scene.restore(zone, copy)
    scene.agents["leaf"] = back
    decided = [scene.recovered(zone) for zone in copies][-1]
    # then the root takes no child's word against its rows, and says that the other one has it too
    assert [line["kind"] for line in decided] == ["instance_unknown_here", "recovery_open"]
    assert scene.kinds("root") == {"child_has_unknown_instance"}
    # and a repair lets it run where the rows have it, alone
    scene.repair("root")
    scene.work(6)
    assert [name for name, agent in scene.agents.items() if agent.uuids()] == ["leaf"]
    assert scene.servers() == {uuid: "ACTIVE"}
    nothing_is_wrong(scene.tree)
