"""Two agents of one user and one service, as two machines have whose operator names no service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene
from tests.builders.tree import Tree

DOWN_S = 1000.0


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("zone", service_down_time=DOWN_S, instance_build_timeout=int(20 * DOWN_S))
    node.client().post("/flavors", FLAVOR)
    return tree


def an_agent(tree: Tree, number: int, service: str = "compute") -> RealAgent:
    """The agent of a machine of its own; one of the same number has the same state folder."""
    folder = tree.folder / f"agent-{number}"
    return RealAgent(tree, "zone", [a_machine(f"h{number}")], service, folder)


def a_server(tree: Tree) -> str:
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    made = tree.nodes["zone"].client("member").post("/servers", body)
    tree.settle()
    return str(made.json["server"]["id"])


def work(tree: Tree, *agents: RealAgent) -> None:
    for agent in agents * 3:
        agent.work()
        tree.nodes["zone"].zone.heartbeats.write()


def status(tree: Tree, uuid: str) -> str:
    return str(tree.nodes["zone"].client("member").get(f"/servers/{uuid}").json["server"]["status"])


def force(tree: Tree, *, down: bool) -> None:
    body = {"host": "compute", "binary": "zonesched-compute", "forced_down": down}
    assert tree.nodes["zone"].client().call("PUT", "/os-services/force-down", body).status == 200


def end(tree: Tree) -> None:
    """Let the time pass after which an agent that has ended is down."""
    tree.nodes["zone"].zone.heartbeats.write()
    tree.clock.advance(DOWN_S + 1.0)


def take_over(tree: Tree, agent: RealAgent) -> None:
    """Let an agent ask for the place of another one, which does not call meanwhile."""
    tree.nodes["zone"].zone.heartbeats.write()
    agent.work()
    for _ in range(2):
        tree.clock.advance(DOWN_S / 2)
        agent.work()


def test_a_second_agent_of_that_service_runs_and_ends_nothing_and_says_why_once(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    # given an agent with a server
    first = an_agent(tree, 1)
    old = a_server(tree)
    work(tree, first)
    # when another machine gets an agent of the same user, and nobody names its service
    second = an_agent(tree, 2)
    new = a_server(tree)
    work(tree, second, first)
    # then each server runs once, on the host of the first
    assert (first.uuids(), second.driver.spawned) == ({old, new}, [])
    assert [status(tree, uuid) for uuid in (old, new)] == ["ACTIVE", "ACTIVE"]
    (said,) = [line for line in caplog.messages if "service_belongs_to_another_agent" in line]
    assert "--service" in said


def test_agents_of_two_services_are_taken_and_so_is_one_that_is_restarted_at_once(tree: Tree) -> None:
    agents = [an_agent(tree, 1, "compute-1"), an_agent(tree, 2, "compute-2")]
    servers = {a_server(tree) for _ in range(4)}
    work(tree, *agents)

    restarted = an_agent(tree, 1, "compute-1")
    servers.add(a_server(tree))
    work(tree, restarted, agents[1])

    assert restarted.uuids() | agents[1].uuids() >= servers - agents[0].uuids()
    assert {status(tree, uuid) for uuid in servers if uuid not in agents[0].uuids()} == {"ACTIVE"}
    assert sql(tree.nodes["zone"].zone, "SELECT count(*) FROM hosts") == [(2,)]


def test_an_agent_takes_the_place_of_one_that_has_ended_which_is_refused_when_it_comes_back(
    tree: Tree,
) -> None:
    # given an agent whose machine is replaced
    first = an_agent(tree, 1)
    work(tree, first)
    second = an_agent(tree, 2)
    take_over(tree, second)
    # when it comes back, and there is a server to build
    uuid = a_server(tree)
    work(tree, first, second)
    # then it hears nothing of it, and is in no service group that would keep its successor's service up
    assert (first.driver.spawned, second.uuids()) == ([], {uuid})
    assert first.zone_uuid == ""
    # when the second one ends
    take_over(tree, first)
    # then it is the first one's again
    later = a_server(tree)
    work(tree, first)
    assert later in {key.uuid for key in first.driver.spawned}
    assert later not in {key.uuid for key in second.driver.spawned}


def test_two_agents_never_share_a_service_that_is_forced_down(tree: Tree) -> None:
    # given an agent that works on, although its service is forced down
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    force(tree, down=True)
    # when another one comes
    second = an_agent(tree, 2)
    work(tree, second, first)
    # then it gets nothing
    assert (first.uuids(), second.driver.spawned) == ({uuid}, [])
    # and takes its place once it has ended; it stays forced down until an operator says otherwise
    take_over(tree, second)
    assert second.zone_uuid == tree.nodes["zone"].zone.uuid
    assert sql(tree.nodes["zone"].zone, "SELECT forced_down FROM services WHERE name = 'compute'") == [(1,)]


def test_an_agent_is_known_again_by_a_zone_that_did_not_know_its_id(tree: Tree) -> None:
    # given an agent whose zone is of a version that keeps no ids, and is upgraded under it
    first = an_agent(tree, 1)
    zone = tree.nodes["zone"].zone
    (before,) = sql(zone, "SELECT agent_id FROM services WHERE name = 'compute'")
    sql(zone, "UPDATE services SET agent_id = ''")

    work(tree, first)

    assert sql(zone, "SELECT agent_id FROM services WHERE name = 'compute'") == [before]
    assert before.agent_id == (tree.folder / "agent-1" / "agent-id").read_text().strip()


def test_a_restored_zone_that_knows_the_agent_before_hears_the_present_one(tree: Tree) -> None:
    # given a copy of a zone with a server, and an agent that has taken the place of the one in it since
    an_agent(tree, 1)
    uuid = a_server(tree)
    scene = Scene(tree)
    copy = scene.copy("zone")
    second = scene.agents["zone"] = an_agent(tree, 2)
    take_over(tree, second)
    work(tree, second)
    assert second.uuids() == {uuid}
    # when the copy is put back
    scene.restore("zone", copy)
    take_over(tree, second)
    scene.recovered("zone")
    # then the server is the second agent's, which has built it once
    assert second.uuids() == {uuid}
    assert [key.uuid for key in second.driver.spawned] == [uuid]
    assert status(tree, uuid) == "ACTIVE"


def test_an_agent_takes_the_place_of_one_that_fences_once_nothing_of_that_runs(tree: Tree) -> None:
    # given an agent that promised to end its instances later than it counts as down
    node, fence_s = tree.nodes["zone"], 5 * DOWN_S
    client, (first, second) = node.client("compute"), tree.clock.new_uuids(2)
    body = {"service": "compute", "hosts": []}

    def register(agent: str) -> int:
        return client.call("PUT", "/hosts", body, headers={"X-Zonesched-Agent": agent}).status

    assert register(first) == 200
    beat = {"service": "compute", "fence_after": fence_s}
    assert client.post("/hosts/beat", beat, headers={"X-Zonesched-Agent": first}).status == 204
    # when another one comes, and asks again and again
    answers = []
    for pause_s in (0.0, *[DOWN_S / 2] * 13, 6.0):
        tree.clock.advance(pause_s)
        answers.append(register(second))
    # then it is refused while instances of the first may still run, and taken once they have ended for sure
    assert answers == [409] * 14 + [200]


@pytest.mark.parametrize("is_restarted", [True, False], ids=["zone", "way_to_it"])
def test_an_agent_takes_no_place_of_one_that_could_not_call_since_the_zone_was_away(
    tree: Tree, is_restarted: bool
) -> None:
    # given an agent with a server, and a second one that is refused
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    second = an_agent(tree, 2)
    work(tree, first, second)
    tree.nodes["zone"].zone.heartbeats.write()
    second.work()
    # when no agent reaches the zone for longer than service_down_time, and the second one calls first
    end(tree)
    if is_restarted:
        tree.restart("zone")
    second.work()
    work(tree, first, second)
    # then the first has its place, and its server
    assert (first.uuids(), second.driver.spawned) == ({uuid}, [])
    assert status(tree, uuid) == "ACTIVE"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/hosts/instances?service=compute", None),
        ("GET", "/hosts/claims?service=compute", None),
        ("POST", "/hosts/beat", {"service": "compute"}),
        ("POST", "/hosts/reports", {"service": "compute", "reports": []}),
        ("POST", "/hosts/excesses", {"service": "compute", "excesses": []}),
        ("POST", "/hosts/running", {"service": "compute", "instances": [], "first": True, "last": True}),
        ("POST", "/hosts/consoles", {"service": "compute", "id": "", "state": "unsupported"}),
        ("PUT", "/hosts", {"service": "compute", "hosts": []}),
    ],
)
def test_each_call_of_another_agent_is_refused(tree: Tree, method: str, path: str, body: object) -> None:
    an_agent(tree, 1)
    if isinstance(body, dict) and "id" in body:
        body["id"] = tree.clock.new_uuid()
    client = tree.nodes["zone"].client("compute")

    other = client.call(method, path, body, headers={"X-Zonesched-Agent": tree.clock.new_uuid()})
    wrong = client.call(method, path, body, headers={"X-Zonesched-Agent": "two"})
    without = client.call(method, path, body)

    refusal = other.json["conflictingRequest"]
    assert (other.status, refusal["error_code"]) == (409, "service_belongs_to_another_agent")
    assert (wrong.status, wrong.json["badRequest"]["field"]) == (400, "X-Zonesched-Agent")
    assert without.status < 300
