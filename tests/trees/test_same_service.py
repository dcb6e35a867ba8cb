"""Two agents of one user and one service, as two machines have whose operator names no service."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene
from tests.builders.tree import Tree, a_host
from zonesched.errors import Conflict
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.caller import Caller
from zonesched.services.hosts import hosts
from zonesched.services.recovery import told_by_agents
from zonesched.store.store import Store, StoreError, Transaction

DOWN_S = 1000.0
T = TypeVar("T")


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


def a_clone(tree: Tree, number: int) -> RealAgent:
    """The agent of a copy of a machine, or of that machine once it has started again."""
    folder = tree.folder / f"clone-of-{number}"
    shutil.copytree(tree.folder / f"agent-{number}", folder)
    return RealAgent(tree, "zone", [a_machine(f"h{number}")], "compute", folder)


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


def evacuate(tree: Tree, host: str) -> None:
    """Say that nothing runs on a host whose agent is not heard."""
    admin = tree.nodes["zone"].client()
    (found,) = admin.get(f"/os-services?host={host}&binary=nova-compute").json["services"]
    answer = admin.post(f"/os-services/{found['id']}/action", {"evacuate": {"fenced": True}})
    assert answer.status == 202, answer.body
    tree.settle()


def unshelve(tree: Tree, uuid: str) -> None:
    """Place a server that found no other host when its own was evacuated."""
    assert status(tree, uuid) == "SHELVED_OFFLOADED"
    answer = tree.nodes["zone"].client("member").post(f"/servers/{uuid}/action", {"unshelve": None})
    assert answer.status == 202, answer.body
    tree.settle()


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


def test_the_agent_of_a_copied_machine_runs_and_ends_nothing_and_says_why_once(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    # given an agent with a server, and a copy of its machine
    first = an_agent(tree, 1)
    old = a_server(tree)
    work(tree, first)
    clone = a_clone(tree, 1)
    new = a_server(tree)
    # when both work, longer than the time after which an agent is down
    for _ in range(3):
        work(tree, clone, first)
    # then each server runs once, where it was
    assert (first.uuids(), clone.driver.spawned) == ({old, new}, [])
    assert [status(tree, uuid) for uuid in (old, new)] == ["ACTIVE", "ACTIVE"]
    (said,) = [line for line in caplog.messages if "service_belongs_to_another_agent" in line]
    assert "remove that folder" in said


def test_the_agent_of_a_machine_that_has_started_again_goes_on_by_itself(tree: Tree) -> None:
    # given an agent with a server
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    work(tree, first)
    # when its machine starts again, and its agent asks for some time
    later = a_clone(tree, 1)
    assert later.driver.spawned == []
    for _ in range(int(DOWN_S / 64) + 1):
        later.work()
    # then it has its server, without a word of the operator, and its earlier self is refused
    assert later.uuids() == {uuid}
    work(tree, first, later)
    assert first.zone_uuid == ""


def test_a_copy_that_asks_first_after_its_zone_was_away_for_long_gets_nothing(tree: Tree) -> None:
    # given an agent with a server, and a copy of its machine that was refused
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    work(tree, first)
    clone = a_clone(tree, 1)
    # when neither can call for long, and then the copy calls first
    tree.clock.advance(10 * DOWN_S)
    clone.step()
    work(tree, first, clone)
    # then the server runs once
    assert (first.uuids(), clone.driver.spawned) == ({uuid}, [])


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
    evacuate(tree, "h2")
    # then it is the first one's again
    work(tree, first)
    later = a_server(tree)
    work(tree, first)
    assert later in {key.uuid for key in first.driver.spawned}
    assert later not in {key.uuid for key in second.driver.spawned}


def test_an_agent_without_a_state_folder_gets_no_place_of_one_that_may_run_its_servers(tree: Tree) -> None:
    """An agent that was started without its driver: `fake` is the default."""
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    work(tree, first)
    # when an agent of that service comes that has no id, beside the first and after it
    second = RealAgent(tree, "zone", [a_machine("h1")], "compute")
    work(tree, second, first)
    take_over(tree, second)
    # then it builds nothing, and the first one keeps what it runs
    assert second.driver.spawned == []
    work(tree, first)
    assert (first.uuids(), status(tree, uuid)) == ({uuid}, "ACTIVE")


def test_an_agent_without_a_state_folder_takes_the_place_of_one_that_has_no_servers(tree: Tree) -> None:
    an_agent(tree, 1)
    second = RealAgent(tree, "zone", [a_machine("h1")], "compute")
    take_over(tree, second)
    uuid = a_server(tree)
    work(tree, second)
    assert (second.uuids(), status(tree, uuid)) == ({uuid}, "ACTIVE")


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
    evacuate(tree, "h1")
    work(tree, second)
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
    evacuate(tree, "h1")
    work(tree, second)
    unshelve(tree, uuid)
    work(tree, second)
    assert second.uuids() == {uuid}
    # when the copy is put back
    scene.restore("zone", copy)
    take_over(tree, second)
    evacuate(tree, "h1")
    work(tree, second)
    scene.recovered("zone")
    # then the server is the second agent's, which has built it once
    assert second.uuids() == {uuid}
    assert [key.uuid for key in second.driver.spawned] == [uuid]
    assert status(tree, uuid) == "ACTIVE"


def test_a_restored_zone_hears_no_other_agent_instead_of_one_that_is_cut_off(tree: Tree) -> None:
    # given an agent that is cut off with a server that is being shelved, and a copy of its zone
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    work(tree, first)
    client = tree.nodes["zone"].client("member")
    assert client.post(f"/servers/{uuid}/action", {"shelve": None}).status == 202
    tree.settle()
    scene = Scene(tree)
    copy = scene.copy("zone")
    # when the copy is put back, and another agent asks for its place
    scene.restore("zone", copy)
    second = an_agent(tree, 2)
    take_over(tree, second)
    work(tree, second)
    # then the recovery waits for the first, which may run the server
    assert first.uuids() == {uuid}
    assert scene.kinds("zone") == {"neighbour_unheard"}
    # and goes on by an operator's word
    evacuate(tree, "h1")
    work(tree, second)
    scene.recovered("zone")
    unshelve(tree, uuid)
    work(tree, second)
    assert second.uuids() == {uuid}


def test_an_agent_that_is_cut_off_keeps_its_servers_until_an_operator_says_that_it_has_ended(
    tree: Tree,
) -> None:
    # given an agent that does not fence, with a server that runs on while it is cut off
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    work(tree, first)
    # when another one asks for its place, for much longer than service_down_time
    second = an_agent(tree, 2)
    for _ in range(3):
        take_over(tree, second)
    # then the server runs once
    assert (first.uuids(), second.driver.spawned) == ({uuid}, [])
    # and an operator who has cut it off for good gives the other one its place
    evacuate(tree, "h1")
    work(tree, second)
    unshelve(tree, uuid)
    work(tree, second)
    assert second.uuids() == {uuid}
    assert status(tree, uuid) == "ACTIVE"


def test_an_agent_that_comes_back_to_its_place_while_another_one_asks_goes_on(tree: Tree) -> None:
    # given an agent that was cut off, and another one that asks for its place
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    work(tree, first)
    second = an_agent(tree, 2)
    take_over(tree, second)
    # when the first is back, and then another time as a new process
    work(tree, second, first)
    later = a_server(tree)
    work(tree, second, first)
    again = an_agent(tree, 1)
    work(tree, second, again)
    # then it goes on at once
    assert first.uuids() == {uuid, later}
    assert (again.uuids(), second.driver.spawned) == ({uuid, later}, [])


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


def test_an_agent_that_does_not_fence_keeps_its_place_for_all_of_service_down_time(tree: Tree) -> None:
    # given an agent that is silent from now on
    client, (first, second) = tree.nodes["zone"].client("compute"), tree.clock.new_uuids(2)
    body = {"service": "compute", "hosts": []}

    def register(agent: str) -> int:
        return client.call("PUT", "/hosts", body, headers={"X-Zonesched-Agent": agent}).status

    assert register(first) == 200
    # when another one asks again and again
    answers = []
    for pause_s in (0.0, DOWN_S / 2, DOWN_S / 2 - 0.5, 0.5):
        tree.clock.advance(pause_s)
        answers.append(register(second))
    # then it is taken at the end of that time, and no moment before
    assert answers == [409, 409, 409, 200]


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

    for refused in (other, without):
        refusal = refused.json["conflictingRequest"]
        assert (refused.status, refusal["error_code"]) == (409, "service_belongs_to_another_agent")
    assert (wrong.status, wrong.json["badRequest"]["field"]) == (400, "X-Zonesched-Agent")


class Meanwhile(Store):
    """The store of a zone in which something happens just before the next transaction that writes."""

    def __init__(self, store: Store, happens: Callable[[], object]) -> None:
        vars(self).update(vars(store))
        self.happens = happens

    def write(self, fn: Callable[[Transaction], T]) -> T:
        happens, self.happens = self.happens, lambda: None
        happens()
        return super().write(fn)


def an_agent_id(tree: Tree) -> Caller:
    """The caller of another agent each time."""
    compute = tree.nodes["zone"].compute
    assert compute is not None
    return replace(compute, agent_id=tree.clock.new_uuid())


def test_a_promise_that_comes_while_another_agent_takes_the_place_is_not_of_that_one(tree: Tree) -> None:
    # given an agent that fences and has called at last, while another one takes its place, which does not
    zone, (first, second) = tree.nodes["zone"].zone, (an_agent_id(tree), an_agent_id(tree))
    hosts.register(zone, first, "compute", [])

    def takes_the_place() -> None:
        for pause_s in (0.0, DOWN_S / 2, DOWN_S / 2):
            tree.clock.advance(pause_s)
            with suppress(Conflict):
                hosts.register(zone, second, "compute", [])

    late = replace(zone, store=Meanwhile(zone.store, takes_the_place))
    # when its promise is written
    with pytest.raises(Conflict):
        hosts.beat(late, first, "compute", 60.0)
    # then nobody counts on the other one to end its instances
    assert sql(zone, "SELECT count(*) FROM fencing_promises") == [(0,)]


def test_an_agent_that_asks_while_another_one_takes_the_place_gets_nothing_to_run(tree: Tree) -> None:
    # given a build on the host of an agent that asks what to run
    zone, (first, second) = tree.nodes["zone"].zone, (an_agent_id(tree), an_agent_id(tree))
    hosts.register(zone, first, "compute", [a_host("h1")])
    hosts.beat(zone, first, "compute", 60.0)
    uuid = a_server(tree)

    def takes_the_place() -> None:
        for _ in range(12):
            with suppress(Conflict):
                hosts.register(zone, second, "compute", [a_host("h1")])
            tree.clock.advance(DOWN_S / 2)

    late = Meanwhile(zone.store, takes_the_place)
    # when another one takes its place before it is answered
    with pytest.raises(Conflict):
        hosts.desired(late, zone.heartbeats, first, "compute")
    # then only the other one gets it
    assert [one.uuid for one in hosts.desired(zone.store, zone.heartbeats, second, "compute")] == [uuid]


@pytest.mark.parametrize("state", [AgentState.GONE, AgentState.ERROR, AgentState.ACTIVE])
def test_what_an_agent_reports_while_another_one_takes_the_place_is_not_of_that_one(
    tree: Tree, state: AgentState
) -> None:
    # given an agent that fences and has a server, and whose last report waits for the database
    zone, (first, second) = tree.nodes["zone"].zone, (an_agent_id(tree), an_agent_id(tree))
    hosts.register(zone, first, "compute", [a_host("h1")])
    hosts.beat(zone, first, "compute", 60.0)
    uuid = a_server(tree)
    hosts.desired(zone.store, zone.heartbeats, first, "compute")

    def takes_the_place() -> None:
        for _ in range(12):
            with suppress(Conflict):
                hosts.register(zone, second, "compute", [a_host("h1")])
            tree.clock.advance(DOWN_S / 2)

    late = replace(zone, store=Meanwhile(zone.store, takes_the_place))
    # when it is written after another agent has taken the place
    with pytest.raises(Conflict):
        hosts.report(late, first, "compute", [AgentReport(uuid, 1, state)])
    # then the other one builds the server as before
    assert [one.uuid for one in hosts.desired(zone.store, zone.heartbeats, second, "compute")] == [uuid]
    assert sql(zone, "SELECT status FROM instances") == [("BUILD",)]


def test_what_an_agent_tells_while_another_one_takes_the_place_is_not_of_that_one(tree: Tree) -> None:
    # given a restored zone, and an agent that tells what it has while another one takes its place
    hosts.register(tree.nodes["zone"].zone, first := an_agent_id(tree), "compute", [a_host("h1")])
    scene, second = Scene(tree), an_agent_id(tree)
    scene.restore("zone", scene.copy("zone"))
    zone = tree.nodes["zone"].zone

    def takes_the_place() -> None:
        for pause_s in (0.0, DOWN_S / 2, DOWN_S / 2):
            tree.clock.advance(pause_s)
            with suppress(Conflict):
                hosts.register(zone, second, "compute", [a_host("h1")])

    late = replace(zone, store=Meanwhile(zone.store, takes_the_place))
    # when its last page is written
    with pytest.raises(Conflict):
        told_by_agents.take(late, first, "compute", [], is_first=True, is_last=True)
    # then the recovery waits for the other one
    assert scene.kinds("zone") == {"neighbour_unheard"}


@contextmanager
def a_full_disk() -> Iterator[None]:
    """No file takes a byte more, so a transaction that only reads works, and no other one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.sqlite
@pytest.mark.parametrize("has_room", [False, True], ids=["full", "full again and again"])
def test_an_agent_whose_heartbeats_no_disk_takes_keeps_its_place(tree: Tree, has_room: bool) -> None:
    # given an agent with a server, which calls as ever while the disk of its zone is full
    first = an_agent(tree, 1)
    uuid = a_server(tree)
    work(tree, first)
    second = an_agent(tree, 2)
    for _ in range(40):
        with a_full_disk():
            first.work()
            with suppress(StoreError):
                tree.nodes["zone"].zone.heartbeats.write()
            second.work()
        if has_room:
            second.work()
    # when there is room, and another agent asks for its place first
    second.work()
    work(tree, first, second)
    # then the server runs once
    assert (first.uuids(), second.driver.spawned) == ({uuid}, [])
    assert status(tree, uuid) == "ACTIVE"
