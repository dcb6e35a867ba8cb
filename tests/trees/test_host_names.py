"""Two agents that have a host of one name, as two machines of one host name have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.tree import Node, Tree
from zonesched.model.caller import Role
from zonesched.services.catalog import users

DOWN_S = 1000.0


def a_served_host(folder: Path) -> tuple[Tree, Node, RealAgent, str]:
    """A zone with one agent, and the uuid of the server that runs on its host."""
    tree = Tree(folder)
    node = tree.add("zone", service_down_time=DOWN_S)
    first = RealAgent(tree, "zone", [a_machine("localhost")], "agent-1")
    node.client().post("/flavors", FLAVOR)
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    uuid = node.client("member").post("/servers", body).json["server"]["id"]
    tree.settle()
    first.work()
    return tree, node, first, uuid


@pytest.mark.parametrize("is_away", [False, True], ids=["at_once", "after_the_zone_was_away"])
def test_a_second_agent_with_a_host_of_that_name_ends_nothing_of_the_first(
    tmp_path: Path, is_away: bool
) -> None:
    # given a server on the host of an agent
    tree, node, first, uuid = a_served_host(tmp_path)
    # when another machine of the same host name gets an agent, too
    node.zone.heartbeats.write()
    second = RealAgent(tree, "zone", [a_machine("localhost")], "agent-2")
    if is_away:
        tree.clock.advance(DOWN_S + 1.0)
        tree.restart("zone")
        second.work()
    for _ in range(3):
        first.work()
        tree.nodes["zone"].zone.heartbeats.write()
        second.work()
    # then the server runs on, where it was
    assert (first.uuids(), second.uuids()) == ({uuid}, set())
    assert node.client("member").get(f"/servers/{uuid}").json["server"]["status"] == "ACTIVE"


def test_a_host_of_an_agent_that_calls_although_it_is_forced_down_goes_to_nobody(tmp_path: Path) -> None:
    # given a server on the host of an agent, and another one that asks for that host
    tree, node, first, uuid = a_served_host(tmp_path)
    second = RealAgent(tree, "zone", [a_machine("localhost")], "agent-2")
    # when the first is forced down, and calls all the same
    forced = {"host": "agent-1", "binary": "zonesched-compute", "forced_down": True}
    assert node.client().call("PUT", "/os-services/force-down", forced).status == 200
    for _ in range(40):
        for agent in (second, first):
            agent.step()
            # then the server runs once at each moment
            assert (first.uuids(), second.uuids()) == ({uuid}, set())
        node.zone.heartbeats.write()
        tree.clock.advance(1.0)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["", "its user was deleted"])
def test_a_host_of_an_agent_that_is_cut_off_waits_for_an_operators_word(
    tmp_path: Path, is_deleted: bool
) -> None:
    # given an agent that does not fence, with a server that runs on while it is cut off
    tree, node, first, uuid = a_served_host(tmp_path)
    node.zone.heartbeats.write()
    if is_deleted:
        users.delete(node.zone.store, node.zone.verified, "compute")
        node.secrets["compute"] = users.create(
            node.zone.store, node.zone.clock, "compute", Role.COMPUTE, "-"
        ).secret
    # when another agent has a host of that name, for much longer than service_down_time
    second = RealAgent(tree, "zone", [a_machine("localhost")], "agent-2")
    for _ in range(8):
        tree.clock.advance(DOWN_S / 2)
        second.work()
    # then the server runs once
    assert (first.uuids(), second.driver.spawned) == ({uuid}, [])
    # and an operator who has cut it off for good gives the other one the host
    admin = node.client()
    (found,) = admin.get("/os-services?host=localhost&binary=nova-compute").json["services"]
    assert admin.post(f"/os-services/{found['id']}/action", {"evacuate": {"fenced": True}}).status == 202
    for _ in range(3):
        second.work()
        node.zone.heartbeats.write()
        tree.settle()
    second.work()
    assert second.uuids() == {uuid}
    assert node.client("member").get(f"/servers/{uuid}").json["server"]["status"] == "ACTIVE"


@pytest.mark.parametrize("is_forced_down", [False, True])
def test_a_host_of_an_agent_that_fences_goes_to_another_one_once_nothing_runs_there(
    tmp_path: Path, is_forced_down: bool
) -> None:
    # given an agent that promised to end its instances later than it counts as down, and has died since
    tree = Tree(tmp_path)
    node = tree.add("zone", service_down_time=DOWN_S)
    client, fence_s = node.client("compute"), 5 * DOWN_S
    host = {"name": "h1", "inventories": {"VCPU": {"total": 4}}}

    def register(service: str) -> int:
        return client.call("PUT", "/hosts", {"service": service, "hosts": [host]}).status

    assert register("first") == 200
    assert client.post("/hosts/beat", {"service": "first", "fence_after": fence_s}).status == 204
    if is_forced_down:
        body = {"host": "first", "binary": "zonesched-compute", "forced_down": True}
        assert node.client().call("PUT", "/os-services/force-down", body).status == 200
    # when another one has a host of that name, and asks for it again and again
    answers = []
    for pause_s in (0.0, *[DOWN_S / 2] * 13, 6.0):
        tree.clock.advance(pause_s)
        answers.append(register("second"))
    # then it is refused while instances of the first may still run, and taken once they have ended for sure
    assert answers == [409] * (len(answers) - 1) + [200]


def test_an_agent_that_has_renewed_its_promise_keeps_its_host_before_its_heartbeat_is_written(
    tmp_path: Path,
) -> None:
    # given an agent that was away for as long as it promised to end its instances, and longer
    tree = Tree(tmp_path)
    client = tree.add("zone", service_down_time=DOWN_S).client("compute")
    host = {"name": "h1", "inventories": {"VCPU": {"total": 4}}}
    promise = {"service": "first", "fence_after": DOWN_S}

    def register(service: str) -> int:
        tree.clock.advance(DOWN_S / 2)
        return client.call("PUT", "/hosts", {"service": service, "hosts": [host]}).status

    assert register("first") == 200
    assert client.post("/hosts/beat", promise).status == 204
    assert [register("second") for _ in range(5)] == [409] * 5
    # when it is back, and is answered, just before another one asks for its host again
    assert client.post("/hosts/beat", promise).status == 204
    again = register("second")
    # then its instances may run once more
    assert again == 409
