"""Agents that fence, and evacuations without an operator: real agents and a real zone under one clock."""

from __future__ import annotations

import errno
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.migrated import copy_database, replace_database, url_of
from tests.builders.restored import INCARNATION
from tests.builders.tree import Answer, Node, Tree
from tests.builders.wsgi_transport import Dead, Fault, LostReply, WsgiAdapter
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.lease import Lease
from zonesched.compute.state_folder import NO_IDENTITY, AgentIdentity
from zonesched.model.fencing import fenced_after_s
from zonesched.services import background
from zonesched.services.audit import audit
from zonesched.services.hosts import automatic_evacuation, hosts
from zonesched.services.state import fences
from zonesched.store import copies, fencing_promises
from zonesched.store.store import Transaction

pytestmark = [pytest.mark.slow, pytest.mark.same_statements]

FENCE_S = 60.0
KEPT_S = fenced_after_s(FENCE_S)
MACHINE, FIRST_BOOT, SECOND_BOOT = (f"{number}0000000-0000-4000-8000-000000000000" for number in "123")


class Driver(FakeDriver):
    """The fake driver, which cannot write its lease while its disk is full."""

    is_full = False

    def hold(self, lease: Lease) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        super().hold(lease)


class Machine:
    """A host with its real agent on the fake driver, and a network of its own to the zone.

    `is_paused`: the agent's process is stopped or dead; what it has started runs on until its lease ends.
    """

    def __init__(self, tree: Tree, node: Node, name: str, fence_after_s: float) -> None:
        self.name = name
        self.url = node.url
        self.network = WsgiAdapter()
        self.is_paused = False
        self.tree = tree
        self.driver = Driver(DriverSettings(), tree.clock)
        self.mount(node)
        self.start(node, fence_after_s)

    def start(
        self, node: Node, fence_after_s: float, poll_s: float = 2.0, identity: AgentIdentity = NO_IDENTITY
    ) -> None:
        connection = ZoneConnection(node.url, "compute", node.secrets["compute"], adapter=self.network)
        inventories = {"VCPU": {"total": 2}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100}}
        hosts = [InventoryHost(self.name, inventories=inventories)]
        rhythm = Rhythm(poll_s=poll_s, fence_after_s=fence_after_s)
        client = AgentClient(connection, f"agent-{self.name}", identity)
        self.agent = Agent(client, self.driver, self.tree.clock, hosts, rhythm)

    def mount(self, node: Node) -> None:
        self.network.mount(self.url, node.app)

    def cut(self, fault: Fault) -> None:
        self.network.fault(self.url, fault)

    def running(self) -> set[str]:
        """Return the instances that its machine runs, also unknown to its agent: none after the lease."""
        if not self.driver.lease().is_held(self.tree.clock.monotonic()):
            return set()
        return {key.uuid for key in self.driver._built if key not in self.driver._fenced}


class Scene:
    """One zone, h1 with a server, and h2 with room for it."""

    def __init__(self, folder: Path, *, fence_after_s: float = FENCE_S, **options: Any) -> None:
        self.tree = Tree(folder)
        options = {"service_down_time": 30.0, "evacuate_automatically": True, **options}
        self.node = self.tree.add("leaf", **options)
        self.machines = [Machine(self.tree, self.node, "h1", fence_after_s)]
        self.go_on(1)
        self.node.client().post("/flavors", FLAVOR)
        body = {"server": {"name": "vm", "flavorRef": "small"}}
        self.uuid = str(self.node.client("member").post("/servers", body).json["server"]["id"])
        self.go_on(5)
        self.machines.append(Machine(self.tree, self.node, "h2", fence_after_s))
        self.go_on(5)
        assert self.where() == ["h1"]

    def where(self) -> list[str]:
        return [machine.name for machine in self.machines if self.uuid in machine.running()]

    def status(self) -> tuple[str, str]:
        shown = self.node.client().get(f"/servers/{self.uuid}").json["server"]
        return shown["status"], shown.get("OS-EXT-SRV-ATTR:host") or ""

    def go_on(self, seconds: float) -> None:
        """Let the time go by; P8 holds at each moment of it."""
        for _ in range(round(seconds)):
            self.tree.clock.advance(1.0)
            for machine in self.machines:
                if not machine.is_paused:
                    machine.agent.step()
            self.node.zone.heartbeats.write()
            background.beat_own(self.node.zone)
            automatic_evacuation.evacuate_fenced(self.node.zone)
            self.tree.settle(1)
            if hasattr(self, "uuid"):
                assert len(self.where()) <= 1, f"P8: it runs at {self.where()}"

    def seconds_until(self, done: Callable[[], bool]) -> float:
        """Let the time go by until something is so; how long that took."""
        began_at = self.tree.clock.monotonic()
        while not done():
            self.go_on(1)
            assert self.tree.clock.monotonic() < began_at + 500.0
        return self.tree.clock.monotonic() - began_at

    def restart(self) -> None:
        self.tree.restart("leaf")
        self.node = self.tree.nodes["leaf"]
        for machine in self.machines:
            machine.mount(self.node)

    def is_promised(self) -> bool:
        """Tell whether every agent has promised to fence."""
        return len(self.node.zone.store.read(fencing_promises.read_all)) == len(self.machines)

    def fences_in_s(self) -> float:
        """Return the seconds until the zone takes the host of the first lost agent for fenced."""
        zone = self.node.zone
        left_s = zone.store.read(
            lambda tx: [zone.fences.left_s(tx, id_) for id_ in fencing_promises.read_all(tx)]
        )
        return min(seconds for seconds in left_s if seconds is not None)

    def evacuate(self) -> Answer:
        listed = self.node.client().get("/os-hypervisors/detail").json["hypervisors"]
        host = next(one["id"] for one in listed if one["hypervisor_hostname"] == "h1")
        return self.node.client().post(f"/os-services/{host}/action", {"evacuate": {}})


def cut_off(machine: Machine) -> None:
    machine.cut(Dead())


def pause(machine: Machine) -> None:
    machine.is_paused = True


@pytest.mark.parametrize("lose", [cut_off, pause])
def test_a_server_of_a_lost_agent_ends_there_and_then_runs_elsewhere(
    tmp_path: Path, lose: Callable[[Machine], None]
) -> None:
    scene = Scene(tmp_path)
    h1, _ = scene.machines

    lose(h1)
    ended_s = scene.seconds_until(lambda: scene.where() == [])
    back_s = ended_s + scene.seconds_until(lambda: scene.where() == ["h2"])

    # The last answered heartbeat was up to a third of the fence time ago.
    assert FENCE_S * 2 / 3 - 1 <= ended_s <= FENCE_S
    assert ended_s + KEPT_S - FENCE_S - 1 <= back_s <= KEPT_S + 10
    scene.go_on(5)
    assert scene.status() == ("ACTIVE", "h2")


@pytest.mark.parametrize("lose", [cut_off, pause])
def test_a_server_that_is_being_shelved_there_is_offloaded(
    tmp_path: Path, lose: Callable[[Machine], None]
) -> None:
    scene = Scene(tmp_path)
    lose(scene.machines[0])
    scene.node.client("member").post(f"/servers/{scene.uuid}/action", {"shelve": None})

    waited_s = scene.seconds_until(lambda: scene.status()[0] == "SHELVED_OFFLOADED")

    assert KEPT_S - FENCE_S / 3 - 1 <= waited_s <= KEPT_S + 10
    assert scene.where() == []


def test_what_a_machine_has_is_not_evacuated_while_it_has_started_again_and_waits(tmp_path: Path) -> None:
    # given an agent that fences, for a shorter time than that after which it is down
    scene = Scene(tmp_path, fence_after_s=20.0, service_down_time=60.0)
    (machine, _), zone = scene.machines, scene.node
    machine.start(zone, 20.0, identity=AgentIdentity(MACHINE, FIRST_BOOT))
    scene.go_on(5)
    # when its machine is away for almost that long, and its agent then waits for its place
    machine.driver = Driver(DriverSettings(), scene.tree.clock)
    machine.is_paused = True
    scene.go_on(50)
    machine.is_paused = False
    machine.start(zone, 20.0, identity=AgentIdentity(MACHINE, SECOND_BOOT))
    scene.go_on(90)
    # then its server runs there again, and was nowhere else
    assert scene.where() == ["h1"]
    assert scene.status() == ("ACTIVE", "h1")


@pytest.mark.own_statements
def test_a_zone_that_evacuates_before_the_fence_time_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fences, "fenced_after_s", lambda fence_after_s: 0.0)
    scene = Scene(tmp_path)
    pause(scene.machines[0])

    with pytest.raises(AssertionError, match="runs at"):
        scene.go_on(FENCE_S)


@pytest.mark.parametrize("lose", [cut_off, pause])
def test_an_agent_that_comes_back_ends_what_is_no_longer_its_own(
    tmp_path: Path, lose: Callable[[Machine], None]
) -> None:
    scene = Scene(tmp_path)
    h1, _ = scene.machines
    lose(h1)
    scene.seconds_until(lambda: scene.where() == ["h2"])

    h1.is_paused = False
    h1.network.heal(h1.url)
    scene.go_on(20)

    assert (scene.where(), scene.status()) == (["h2"], ("ACTIVE", "h2"))
    assert h1.agent.state.instances == {}
    assert audit.run(scene.node.zone) == []


@pytest.mark.own_statements
def test_an_agent_that_comes_back_during_the_evacuation_gets_nothing_that_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a host whose agent has been away for as long as it promised to end its server
    scene = Scene(tmp_path, evacuate_automatically=False)
    zone, compute = scene.node.zone, scene.node.compute
    assert compute is not None
    pause(scene.machines[0])
    scene.go_on(2 * KEPT_S)
    left_s = zone.fences.left_s
    listed: list[str] = []

    def come_back() -> None:
        hosts.beat(zone, compute, "agent-h1", FENCE_S)
        listed.extend(one.uuid for one in hosts.desired(zone.store, zone.heartbeats, compute, "agent-h1"))

    back = threading.Thread(target=come_back)

    def meanwhile(tx: Transaction, service_id: str) -> float | None:
        seconds = left_s(tx, service_id)
        back.start()
        back.join(0.5)
        return seconds

    # when it is back while the evacuation has found the host fenced, and has not ended
    monkeypatch.setattr(zone.fences, "left_s", meanwhile)
    evacuated = scene.evacuate()
    back.join()
    # then its list is from after the evacuation
    assert (evacuated.status, evacuated.json["evacuated"], listed) == (202, 1, [])


def test_an_agent_that_hears_no_answer_ends_its_server_and_the_zone_that_hears_it_places_nothing(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    h1, _ = scene.machines

    h1.cut(LostReply())
    ended_s = scene.seconds_until(lambda: scene.where() == [])
    scene.go_on(3 * KEPT_S)
    meanwhile = scene.where()
    h1.network.heal(h1.url)
    scene.go_on(20)

    assert ended_s <= FENCE_S
    assert meanwhile == []
    assert (scene.where(), scene.status()) == (["h1"], ("ACTIVE", "h1"))


def test_after_an_outage_of_the_zone_the_servers_run_where_they_were(tmp_path: Path) -> None:
    scene = Scene(tmp_path, evacuate_automatically=False)
    for machine in scene.machines:
        machine.cut(Dead())
    scene.go_on(FENCE_S + 1)
    assert scene.where() == []

    for machine in scene.machines:
        machine.network.heal(machine.url)
    scene.go_on(20)

    assert (scene.where(), scene.status()) == (["h1"], ("ACTIVE", "h1"))


def test_a_zone_that_was_stopped_itself_evacuates_nobody(tmp_path: Path) -> None:
    # given agents that have fenced, since nobody answered them
    scene = Scene(tmp_path)
    for machine in scene.machines:
        machine.cut(Dead())
    for _ in range(round(KEPT_S) + 1):
        scene.tree.clock.advance(1.0)
        for machine in scene.machines:
            machine.agent.step()
    # when the zone goes on, and looks before the first of them calls
    automatic_evacuation.evacuate_fenced(scene.node.zone)
    for machine in scene.machines:
        machine.network.heal(machine.url)
    scene.go_on(20)
    # then
    assert (scene.where(), scene.status()) == (["h1"], ("ACTIVE", "h1"))


def test_a_zone_that_was_restarted_waits_for_a_whole_fence_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.machines[0].is_paused = True
    scene.go_on(KEPT_S - 20)

    scene.restart()
    waited_s = scene.seconds_until(lambda: scene.where() == ["h2"])

    assert waited_s >= KEPT_S - 1


def test_a_clock_that_is_set_moves_no_evacuation(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.machines[0].is_paused = True
    scene.go_on(20)

    scene.tree.clock.set_to(scene.tree.clock.now() + 3600)
    waited_s = 20 + scene.seconds_until(lambda: scene.where() == ["h2"])

    assert waited_s >= KEPT_S - FENCE_S / 3 - 1


def test_a_paused_agent_that_goes_on_with_an_old_list_starts_nothing(tmp_path: Path) -> None:
    # given an agent that has fetched a list and is paused before it acts on it
    scene = Scene(tmp_path)
    h1, _ = scene.machines
    scene.go_on(3)
    stale = h1.agent._zone.fetch()
    pause(h1)
    scene.seconds_until(lambda: scene.where() == ["h2"])
    # when it goes on, long after its server was placed anew
    h1.is_paused = False
    h1.agent._take(h1.driver.poll())
    h1.agent._take([stale])
    h1.agent._take(h1.driver.poll())
    # then that runs nowhere else, from the first moment on
    assert scene.where() == ["h2"]
    scene.go_on(30)
    assert scene.where() == ["h2"]


def test_without_a_promise_nobody_evacuates_by_himself(tmp_path: Path) -> None:
    scene = Scene(tmp_path, fence_after_s=math.inf)
    scene.machines[0].is_paused = True

    scene.go_on(5 * KEPT_S)
    refused = scene.evacuate()

    assert (scene.where(), scene.status()) == (["h1"], ("ACTIVE", "h1"))
    assert (refused.status, refused.json["conflictingRequest"]["error_code"]) == (409, "host_not_fenced")
    assert "by itself within" not in refused.json["conflictingRequest"]["message"]


def test_an_agent_that_starts_without_fencing_withdraws_its_promise(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    h1, _ = scene.machines

    h1.start(scene.node, math.inf)
    scene.go_on(20)
    pause(h1)
    scene.go_on(5 * KEPT_S)

    assert (scene.where(), scene.evacuate().status) == (["h1"], 409)


def test_an_agent_that_starts_without_fencing_withdraws_its_promise_before_it_runs_anything(
    tmp_path: Path,
) -> None:
    # given an agent that is started without fencing, and cut off once it has its list
    scene = Scene(tmp_path)
    h1, _ = scene.machines
    h1.cut(Dead(path="/hosts/beat"))
    h1.start(scene.node, math.inf)
    scene.go_on(1)
    assert scene.where() == ["h1"]
    # when no heartbeat of it comes for longer than it had promised before
    h1.network.heal(h1.url)
    cut_off(h1)
    scene.go_on(5 * KEPT_S)
    # then nobody takes its host for fenced
    assert (scene.where(), scene.evacuate().status) == (["h1"], 409)


def test_an_agent_that_dies_after_its_registration_has_promised_to_fence(tmp_path: Path) -> None:
    # given an agent that was started again, and no heartbeat of which arrives
    scene = Scene(tmp_path)
    h1, _ = scene.machines
    h1.cut(Dead(path="/hosts/beat"))
    h1.start(scene.node, FENCE_S)
    scene.go_on(1)
    # when it dies
    pause(h1)
    # then its host is fenced as that of any other one
    assert scene.is_promised()
    assert scene.seconds_until(lambda: scene.status() == ("ACTIVE", "h2")) > FENCE_S


def test_an_agent_that_polls_seldom_keeps_its_promise_with_every_heartbeat(tmp_path: Path) -> None:
    # given an agent that hears of news by wake-ups, and sends heartbeats between its polls
    scene = Scene(tmp_path)
    h1, _ = scene.machines
    h1.start(scene.node, FENCE_S, poll_s=600.0)
    scene.go_on(11)
    # when it is lost between a heartbeat and the next renewal of its lease
    assert scene.is_promised()
    pause(h1)
    # then the zone knows the promise
    scene.seconds_until(lambda: scene.where() == ["h2"])


@pytest.mark.parametrize("lose", [cut_off, pause])
def test_an_agent_of_a_restored_zone_keeps_its_promise_from_its_start_on(
    tmp_path: Path, lose: Callable[[Machine], None]
) -> None:
    # given a zone that was once restored from a copy, to which a new agent says first what it has
    scene = Scene(tmp_path)
    copies.mark_restored(url_of(tmp_path / "leaf.sqlite"), INCARNATION)
    scene.restart()
    scene.go_on(20)
    assert scene.node.client().post("/audit", {"repair": {}}).status == 200
    h1, _ = scene.machines
    h1.start(scene.node, FENCE_S)
    scene.go_on(2)
    # when it is lost before it renews its lease
    lose(h1)
    # then the zone knows the promise
    assert scene.is_promised()
    scene.seconds_until(lambda: scene.where() == ["h2"])


def test_a_promise_that_a_copy_has_counts_no_more_once_that_is_restored(tmp_path: Path) -> None:
    # given an agent that was started without fencing since the copy, and is cut off
    scene = Scene(tmp_path, evacuate_automatically=False)
    h1, _ = scene.machines
    copy = tmp_path / "copy.sqlite"
    copy_database(tmp_path / "leaf.sqlite", copy)
    h1.start(scene.node, math.inf)
    scene.go_on(20)
    cut_off(h1)
    # when its zone is restored, and an operator evacuates the host because the recovery waits for the agent
    scene.node.zone.store.close()
    replace_database(tmp_path / "leaf.sqlite", copy)
    copies.mark_restored(url_of(tmp_path / "leaf.sqlite"), INCARNATION)
    scene.restart()
    scene.go_on(5 * KEPT_S)
    refused = scene.evacuate()
    # then the zone asks whether it is fenced
    assert (refused.status, refused.json["conflictingRequest"]["error_code"]) == (409, "host_not_fenced")
    assert scene.where() == ["h1"]


def test_an_agent_that_cannot_write_its_lease_hears_a_delete_that_makes_room(tmp_path: Path) -> None:
    # given an agent whose disk has become full
    scene = Scene(tmp_path)
    h1, _ = scene.machines
    h1.driver.is_full = True
    scene.go_on(FENCE_S / 2)
    # when a server there is deleted, which makes room
    assert scene.node.client("member").delete(f"/servers/{scene.uuid}").status == 204
    scene.go_on(5)
    assert h1.agent.state.instances == {}
    h1.driver.is_full = False
    # then its lease goes on
    scene.go_on(2 * FENCE_S)
    assert h1.driver.lease().is_held(scene.tree.clock.monotonic())
    assert (h1.driver.lease().term, scene.is_promised()) == (1, True)


def test_the_servers_of_an_agent_that_cannot_write_its_lease_run_elsewhere(tmp_path: Path) -> None:
    # given an agent whose disk stays full until its lease ends
    scene = Scene(tmp_path)
    h1, _ = scene.machines
    h1.driver.is_full = True
    ended_s = scene.seconds_until(lambda: scene.where() == [])
    assert FENCE_S * 2 / 3 - 1 <= ended_s <= FENCE_S
    # then its server runs elsewhere
    scene.seconds_until(lambda: scene.where() == ["h2"])
    # and the agent ends what is no longer its own once there is room
    h1.driver.is_full = False
    scene.go_on(30)
    assert (scene.where(), scene.status()) == (["h2"], ("ACTIVE", "h2"))
    assert h1.agent.state.instances == {}
    assert audit.run(scene.node.zone) == []


def test_an_admin_evacuates_without_a_word_once_the_agent_has_fenced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, evacuate_automatically=False)
    pause(scene.machines[0])
    scene.go_on(40)

    too_early = scene.evacuate()
    while scene.fences_in_s() > 1:
        scene.go_on(1)
    scene.tree.clock.advance(scene.fences_in_s() - 0.5)
    nearly = scene.evacuate()
    scene.tree.clock.advance(0.5)
    in_time = scene.evacuate()
    scene.go_on(10)

    assert (nearly.status, too_early.status) == (409, 409)
    assert too_early.json["conflictingRequest"]["error_code"] == "host_not_fenced"
    assert "by itself within" in too_early.json["conflictingRequest"]["message"]
    assert (in_time.status, in_time.json) == (202, {"evacuated": 1, "moving": 0})
    assert scene.status() == ("ACTIVE", "h2")


@pytest.mark.parametrize("fence_after", [0, -1, 0.5, 1e9, "60", True, [60]])
def test_a_promise_that_is_none_is_refused_and_changes_nothing(tmp_path: Path, fence_after: Any) -> None:
    scene = Scene(tmp_path)
    body = {"service": "agent-h1", "fence_after": fence_after}

    reply = scene.node.client("compute").post("/hosts/beat", body)
    scene.go_on(5)

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, "fence_after")
    assert scene.where() == ["h1"]
