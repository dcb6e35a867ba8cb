"""Two agents that have a host of one name, as two machines of one host name have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.tree import Tree

DOWN_S = 1000.0


@pytest.mark.parametrize("is_away", [False, True], ids=["at_once", "after_the_zone_was_away"])
def test_a_second_agent_with_a_host_of_that_name_ends_nothing_of_the_first(
    tmp_path: Path, is_away: bool
) -> None:
    # given a server on the host of an agent
    tree = Tree(tmp_path)
    node = tree.add("zone", service_down_time=DOWN_S)
    first = RealAgent(tree, "zone", [a_machine("localhost")], "agent-1")
    node.client().post("/flavors", FLAVOR)
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    uuid = node.client("member").post("/servers", body).json["server"]["id"]
    tree.settle()
    first.work()
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
    for pause_s in (0.0, *[DOWN_S / 2] * (11 if is_forced_down else 13), 6.0):
        tree.clock.advance(pause_s)
        answers.append(register("second"))
    # then it is refused while instances of the first may still run, and taken once they have ended for sure
    assert answers == [409] * (len(answers) - 1) + [200]
