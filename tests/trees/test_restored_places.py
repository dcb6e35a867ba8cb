"""A restored zone whose servers have gone from host to host since the copy, each host with its own agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene, a_tree

pytestmark = pytest.mark.same_statements


def a_scene(folder: Path, hosts: int) -> Scene:
    scene = Scene(a_tree(folder))
    for number in range(1, hosts + 1):
        name = f"l{number}"
        scene.agents[name] = RealAgent(scene.tree, "leaf", [a_machine(name)], service=name)
    scene.tree.poll()
    return scene


def host_of(scene: Scene, uuid: str) -> str:
    return str(scene.admin("leaf").get(f"/servers/{uuid}").json["server"]["OS-EXT-SRV-ATTR:host"])


def change_host(scene: Scene, name: str, **change: object) -> str:
    """Change a host as its operator does; return its id."""
    services = scene.admin("leaf").get("/os-services?binary=nova-compute").json["services"]
    (id_,) = [service["id"] for service in services if service["host"] == name]
    assert scene.admin("leaf").call("PUT", f"/os-services/{id_}", change).status == 200
    scene.tree.poll()
    return str(id_)


def statuses_of_hosts(scene: Scene) -> set[str]:
    found = scene.admin("leaf").get("/os-hypervisors/detail").json["hypervisors"]
    return {host["status"] for host in found}


def tell(scene: Scene) -> None:
    """Let all say what they have, and end the recovery of the leaf before its agents call again."""
    scene.work(1)
    for agent in scene.agents.values():
        agent.work()
    assert scene.repair("leaf")[-1]["repaired"]


def resizing(scene: Scene) -> str:
    """Boot a server, and let its old host stop it for a resize; return its uuid."""
    large = {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}}
    for name in scene.tree.nodes:
        scene.admin(name).post("/flavors", large)
    (uuid,) = scene.booted(1)
    resize = {"resize": {"flavorRef": "large"}}
    assert scene.admin("root").post(f"/servers/{uuid}/action", resize).status == 202
    scene.tree.settle()
    return uuid


def test_servers_that_have_changed_places_on_full_hosts_since_the_copy_are_where_they_run(
    tmp_path: Path,
) -> None:
    # given two servers, each as large as a host, and both on the other one's host since
    scene = a_scene(tmp_path, 2)
    whole = {"id": "whole", "name": "whole", "vcpus": 16, "ram": 1024, "disk": 1}
    scene.admin("leaf").post("/flavors", {"flavor": whole})
    uuids: list[str] = []
    for _ in range(2):
        body = {"server": {"name": "vm", "flavorRef": "whole"}}
        uuids.append(scene.admin("leaf").post("/servers", body).json["server"]["id"])
        scene.work()
    before = [host_of(scene, uuid) for uuid in uuids]
    copy = scene.copy("leaf")
    for uuid in uuids:
        assert scene.admin("leaf").post(f"/servers/{uuid}/action", {"shelve": None}).status == 202
    scene.work(6)
    for uuid, host in zip(uuids, before, strict=True):
        change_host(scene, host, status="disabled")
        assert scene.admin("leaf").post(f"/servers/{uuid}/action", {"unshelve": None}).status == 202
        scene.work(6)
        change_host(scene, host, status="enabled")
    # when
    scene.restore("leaf", copy)
    scene.recovered("leaf")
    # then
    assert [host_of(scene, uuid) for uuid in uuids] == list(reversed(before))
    assert scene.servers("leaf") == dict.fromkeys(uuids, "ACTIVE")
    assert statuses_of_hosts(scene) == {"enabled"}
    assert scene.claimed_vcpus("leaf") == 32
    nothing_is_wrong(scene.tree)


def test_a_place_between_that_of_the_copy_and_the_present_one_ends(tmp_path: Path) -> None:
    # given a server that was moved, and then evacuated from a host whose agent is back now
    scene = a_scene(tmp_path, 3)
    (uuid,) = scene.booted(1, "leaf")
    copy = scene.copy("leaf")
    assert scene.admin("leaf").post(f"/servers/{uuid}/action", {"migrate": None}).status == 202
    scene.work(6)
    between = host_of(scene, uuid)
    lost = scene.agents.pop(between)
    id_ = change_host(scene, between, forced_down=True)
    evacuation = {"evacuate": {"fenced": True}}
    assert scene.admin("leaf").post(f"/os-services/{id_}/action", evacuation).status == 202
    scene.work(6)
    present = host_of(scene, uuid)
    assert {key.attempt for key in scene.agents[present].running} == {3}
    scene.agents[between] = lost
    # when
    scene.restore("leaf", copy)
    scene.recovered("leaf")
    scene.work(6)
    # then it runs at one place, and its hosts take servers
    assert host_of(scene, uuid) == present
    assert [name for name, agent in scene.agents.items() if agent.running] == [present]
    assert statuses_of_hosts(scene) == {"enabled"}
    assert scene.audit("leaf") == []
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["root", "region", "leaf"])
@pytest.mark.parametrize(("answer", "flavor"), [("revertResize", "small"), ("confirmResize", "large")])
def test_a_resize_under_way_at_the_copy_of_any_zone_waits_for_its_owner(
    tmp_path: Path, zone: str, answer: str, flavor: str
) -> None:
    # given a copy of when the old host was to stop the server, which both hosts have since
    scene = a_scene(tmp_path, 2)
    uuid = resizing(scene)
    copy = scene.copy(zone)
    scene.work(6)
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    scene.work(6)
    # then
    assert [scene.servers(name) for name in scene.tree.nodes] == [{uuid: "VERIFY_RESIZE"}] * 3
    assert scene.admin("root").post(f"/servers/{uuid}/action", {answer: None}).status in (202, 204)
    scene.work(6)
    server = scene.admin("root").get(f"/servers/{uuid}").json["server"]
    assert (server["status"], server["flavor"]["original_name"]) == ("ACTIVE", flavor)
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(("answer", "flavor"), [("revertResize", "small"), ("confirmResize", "large")])
def test_an_owners_answer_to_a_resize_comes_to_its_restored_zone_before_an_agent_does(
    tmp_path: Path, answer: str, flavor: str
) -> None:
    # given a resize under way at the copy of the leaf, which has been done since
    scene = a_scene(tmp_path, 2)
    uuid = resizing(scene)
    copy = scene.copy("leaf")
    scene.work(6)
    # when its owner answers after the recovery, and the agents are silent for a while
    scene.restore("leaf", copy)
    tell(scene)
    assert scene.admin("root").post(f"/servers/{uuid}/action", {answer: None}).status in (202, 204)
    scene.tree.clock.advance(60)
    scene.tree.poll(2)
    scene.tree.settle()
    scene.work(6)
    # then it is as its owner wants it, at one place
    server = scene.admin("root").get(f"/servers/{uuid}").json["server"]
    assert (server["status"], server["flavor"]["original_name"]) == ("ACTIVE", flavor)
    assert len([agent for agent in scene.agents.values() if agent.uuids()]) == 1
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(("answer", "claimed"), [(None, 2 + 4), ("revertResize", 2)])
def test_what_an_agent_runs_whose_flavor_it_does_not_know_has_as_much_claimed_as_before(
    tmp_path: Path, answer: str | None, claimed: int
) -> None:
    # given a server that by the copy is to be resized, or was and has the flavor of before again
    scene = a_scene(tmp_path, 2)
    large = {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}}
    assert scene.admin("leaf").post("/flavors", large).status == 200
    (uuid,) = scene.booted(1, "leaf")

    def act(action: dict[str, Any]) -> None:
        assert scene.admin("leaf").post(f"/servers/{uuid}/action", action).status == 202

    act({"resize": {"flavorRef": "large"}})
    if answer is not None:
        scene.work(6)
        act({answer: None})
        scene.work(6)
    copy = scene.copy("leaf")
    # and that has gone to another host since
    if answer is not None:
        act({"migrate": None})
    scene.work(6)
    before = scene.claimed_vcpus("leaf")
    # when the agents of its hosts have started again, and are heard before they are told what to run
    scene.restore("leaf", copy)
    for agent in scene.agents.values():
        agent.start_again()
    tell(scene)
    # then
    assert (before, scene.claimed_vcpus("leaf")) == (claimed, claimed)


@pytest.mark.parametrize(("counted", "flavor"), [("reverted", "small"), ("confirmed", "large")])
def test_a_resize_under_way_at_the_copy_ends_as_the_parent_knows_it(
    tmp_path: Path, counted: str, flavor: str
) -> None:
    # given a resize that is under way by the rows of the leaf, and was answered by its owner since
    scene = a_scene(tmp_path, 2)
    uuid = resizing(scene)
    # when its parent tells that before the new host has it
    told = {
        "uuid": uuid,
        "attempt": 1,
        "generation": 2,
        "power": "running",
        "reboots": 0,
        "reboot_type": "SOFT",
    }
    resizes = {"begun": 1, "confirmed": 0, "reverted": 0} | {counted: 1}
    sent = {"id": "large", "name": "large", "vcpus": 4, "ram": 512, "disk": 1, "extra_specs": {}}
    body = {"servers": [{**told, "resizes": resizes, "flavor": 0}], "flavors": [sent]}
    assert scene.tree.nodes["leaf"].client("parent-region").post("/servers/desired", body).status == 200
    assert scene.servers("leaf") == {uuid: "RESIZE"}
    scene.work(6)
    # then it runs at one place
    assert scene.servers("leaf") == {uuid: "ACTIVE"}
    server = scene.admin("leaf").get(f"/servers/{uuid}").json["server"]
    assert server["flavor"]["original_name"] == flavor
    assert len([agent for agent in scene.agents.values() if agent.uuids()]) == 1
    assert scene.audit("leaf") == []
    nothing_is_wrong(scene.tree)


def test_what_an_agent_has_built_since_the_copy_runs_nowhere_else_once_that_is_cut_off(
    tmp_path: Path,
) -> None:
    # given a copy of when no agent had asked for a server, which one has built since
    scene = a_scene(tmp_path, 2)
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    uuid = scene.admin("leaf").post("/servers", body).json["server"]["id"]
    scene.tree.settle()
    copy = scene.copy("leaf")
    scene.work()
    assert scene.servers("leaf") == {uuid: "ACTIVE"}
    (name,) = [name for name, agent in scene.agents.items() if agent.running]
    # when the zone is restored, and the agent is cut off once it has told of it
    scene.restore("leaf", copy)
    zone = scene.tree.nodes["leaf"].zone
    zone.conf.set_override("service_down_time", 200)
    tell(scene)
    scene.agents.pop(name)
    for _ in range(10):
        scene.work(1)
        zone.heartbeats.write()
        scene.tree.clock.advance(30)
    # then it is built on no other host
    assert [agent.driver.spawned for agent in scene.agents.values()] == [[]]
    assert sql(zone, "SELECT number, state, reason FROM placements") == [(1, "releasing", "build_timeout")]


def test_a_new_place_that_its_agent_has_built_since_the_copy_is_left_only_once_that_says_so(
    tmp_path: Path,
) -> None:
    # given a copy of when no agent had asked for the new place of a move, which one has built since
    scene = a_scene(tmp_path, 2)
    (uuid,) = scene.booted(1, "leaf")
    old = host_of(scene, uuid)
    (new,) = scene.agents.keys() - {old}
    assert scene.admin("leaf").post(f"/servers/{uuid}/action", {"migrate": None}).status == 202
    scene.tree.settle()
    scene.agents[old].work()
    scene.tree.settle()
    copy = scene.copy("leaf")
    scene.agents[new].work()
    # when the zone is restored, and the new agent is cut off once it has told of it
    scene.restore("leaf", copy)
    zone = scene.tree.nodes["leaf"].zone
    tell(scene)
    assert scene.agents[new].uuids() == {uuid}
    scene.agents.pop(new)
    for _ in range(3):
        scene.tree.clock.advance(zone.conf.instance_build_timeout)
        scene.work(2)
    # then the old one does not run beside it
    assert scene.agents[old].uuids() == set()
    assert sql(zone, "SELECT state FROM placements ORDER BY number") == [("parked",), ("releasing",)]
