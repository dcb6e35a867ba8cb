"""Actions on servers below: desired states reach the agents of a tree, whatever is late, lost or dead."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, a_running_tree, boot, settle_until_killed, the_boot
from tests.builders.crashes import Seams, inconsistencies, open_actions
from tests.builders.migrated import ask, copy_database, replace_database
from tests.builders.played_agent import PlayedAgent, a_report, agents_of
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Tree, a_host
from tests.builders.wsgi_transport import Dead, Duplicate, Fault, LostReply, Replace, Slow, WsgiApp
from zonesched.services.audit import audit, audit_edges
from zonesched.services.children import pending_calls
from zonesched.services.owners import actions

pytestmark = pytest.mark.same_statements

STOP, START, PAUSE = {"os-stop": None}, {"os-start": None}, {"pause": None}
HARD = {"reboot": {"type": "HARD"}}


class Scene:
    """A tree of three levels with twelve servers that run, and an agent for each zone."""

    def __init__(self, tree: Tree, reservation_id: str) -> None:
        self.tree = tree
        self.root = tree.nodes["root"]
        self.reservation_id = reservation_id
        self.agents = agents_of(self.tree)
        self.uuids = [one["uuid"] for one in self.shown()["instances"]]

    def shown(self) -> dict[str, Any]:
        reply = self.tree.nodes["root"].client().get(f"/reservations/{self.reservation_id}")
        found: dict[str, Any] = reply.json["reservation"]
        return found

    def act(self, uuid: str, body: Any) -> Answer:
        return self.tree.nodes["root"].client().post(f"/servers/{uuid}/action", body)

    def act_on_all(self, body: Any) -> Answer:
        path = f"/reservations/{self.reservation_id}/action"
        return self.tree.nodes["root"].client().post(path, body)

    def in_zone(self, name: str) -> str:
        """A server that is in this zone."""
        return str(self.agents[name].work()[0]["uuid"])

    def go_on(self, rounds: int = 3) -> None:
        """Background work and agents, with time for repeated calls."""
        for _ in range(rounds):
            self.tree.clock.advance(10.0)
            self.tree.settle(2)
            self._converge()
        self.tree.settle(3)

    def recover(self, minutes: int = 5) -> None:
        """Time goes by after a zone was killed, until nothing is under way any more."""
        for _ in range(minutes * 4):
            self.tree.clock.advance(15.0)
            self.tree.poll(1)
            self.tree.settle(2)
            self._converge()
            self.tree.settle(3)
            if not inconsistencies(self.tree) and not open_actions(self.tree):
                return

    def _converge(self) -> None:
        for name, agent in self.agents.items():
            agent.node = self.tree.nodes[name]
            agent.converge()

    def statuses(self) -> Counter[str]:
        servers = self.tree.nodes["root"].client().get("/servers/detail").json["servers"]
        return Counter(one["status"] for one in servers)

    def results(self, uuid: str) -> list[tuple[str, str | None, str]]:
        """The actions on a server since its creation, oldest first."""
        path = f"/servers/{uuid}/os-instance-actions"
        lines = self.tree.nodes["root"].client().get(path).json["instanceActions"]
        return [(one["action"], one["result"], one["error_code"]) for one in reversed(lines)][1:]

    def reboots(self) -> Counter[str]:
        return sum((Counter(agent.reboots) for agent in self.agents.values()), Counter())


def a_scene(folder: Path) -> Scene:
    tree = a_running_tree(folder)
    return Scene(tree, the_boot(tree))


def told(tree: Tree) -> int:
    return sum(one.url.endswith("/servers/desired") for one in tree.network.sent)


def test_a_stop_of_a_boot_reaches_every_agent_and_its_end_comes_back(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    scene.tree.network.sent.clear()

    reply = scene.act_on_all(STOP)
    scene.tree.settle(1)
    desired = [line["desired"]["power"] for agent in scene.agents.values() for line in agent.work()]
    scene.go_on()

    assert (reply.status, reply.json) == (202, {"accepted": 12, "refused": []})
    assert desired == ["stopped"] * 12
    # One call each to region, leaf-a and leaf-b.
    assert told(scene.tree) == 3
    assert scene.statuses() == {"SHUTOFF": 12}
    assert {tuple(scene.results(uuid)) for uuid in scene.uuids} == {(("stop", "done", ""),)}
    assert scene.shown()["counts"] == {"SHUTOFF": 12}


@pytest.mark.parametrize("kind", [LostReply, Duplicate, Slow, Dead])
@pytest.mark.parametrize("edge", ["region", "leaf-a"])
def test_a_reboot_happens_once_whatever_becomes_of_the_call(
    tmp_path: Path, edge: str, kind: type[Fault]
) -> None:
    scene = a_scene(tmp_path)
    fault = Slow(60.0, times=2, path="desired") if kind is Slow else kind(times=2, path="desired")
    scene.tree.network.fault(scene.tree.nodes[edge].url, fault)

    scene.act_on_all(HARD)
    scene.go_on()

    assert scene.reboots() == dict.fromkeys(scene.uuids, 1)
    assert {tuple(scene.results(uuid)) for uuid in scene.uuids} == {(("reboot", "done", ""),)}
    assert scene.statuses() == {"ACTIVE": 12}


def test_three_actions_while_a_zone_is_away_arrive_as_the_last_state(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")
    scene.tree.network.fault(scene.tree.nodes["leaf-a"].url, Dead())

    replies = [scene.act(uuid, body).status for body in (STOP, START, PAUSE)]
    scene.go_on()
    meanwhile = scene.results(uuid)
    scene.tree.network.heal(scene.tree.nodes["leaf-a"].url)
    scene.tree.poll()
    scene.go_on()

    assert replies == [202] * 3
    assert [result for _, result, _ in meanwhile] == [None] * 3
    assert scene.results(uuid) == [
        ("stop", "superseded", ""),
        ("start", "superseded", ""),
        ("pause", "done", ""),
    ]
    assert scene.statuses() == {"ACTIVE": 11, "PAUSED": 1}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["root", "region", "leaf-a"])
def test_a_zone_killed_at_any_step_of_a_reboot(tmp_path: Path, victim: str) -> None:
    before = a_scene(tmp_path)
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        scene = Scene(before.tree.copy_to(tmp_path / str(kill_at)), before.reservation_id)
        scene.tree.poll()
        assert scene.act_on_all(HARD).status == 202
        seams = Seams(scene.tree, victim, kill_at)

        killed = settle_until_killed(scene.tree, seams)

        scene.recover()
        assert scene.reboots() == dict.fromkeys(scene.uuids, 1), f"killed at {kill_at}"
        ended = {tuple(scene.results(uuid)) for uuid in scene.uuids}
        assert ended == {(("reboot", "done", ""),)}, f"killed at {kill_at}"
    assert kill_at > 3


def of_an_earlier_version(app: WsgiApp) -> WsgiApp:
    """The application of a zone that does not know the call."""

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].endswith("/servers/desired"):
            environ = environ | {"PATH_INFO": f"/servers/{OTHER}"}
        return app(environ, start_response)

    return serve


def test_a_zone_of_a_version_without_actions_ends_them(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")
    leaf = scene.tree.nodes["leaf-a"]
    scene.tree.network.mount(leaf.url, of_an_earlier_version(leaf.app))
    scene.tree.network.sent.clear()

    scene.act(uuid, STOP)
    scene.go_on()

    assert scene.results(uuid) == [("stop", "error", "action_unsupported_by_zone")]
    assert scene.statuses() == {"ACTIVE": 12}
    assert told(scene.tree) == 2


def without_member(app: WsgiApp, name: bytes) -> WsgiApp:
    """The application of a zone that does not know a member of the lines of the call."""

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].endswith("/servers/desired"):
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            body = body.replace(b'"%s":' % name, b'"x_%s":' % name)
            environ = environ | {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        return app(environ, start_response)

    return serve


def test_what_a_child_of_an_earlier_version_refuses_fails_no_other_action_of_the_call(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    scene.root.client().post("/flavors", {"flavor": {"name": "large", "vcpus": 3, "ram": 2048, "disk": 10}})
    resized, *stopped = (str(line["uuid"]) for line in scene.agents["leaf-a"].work())
    leaf = scene.tree.nodes["leaf-a"]
    scene.tree.network.mount(leaf.url, without_member(leaf.app, b"resizes"))
    scene.tree.network.sent.clear()

    scene.act(resized, {"resize": {"flavorRef": "large"}})
    for uuid in stopped:
        scene.act(uuid, STOP)
    scene.go_on()

    assert {tuple(scene.results(uuid)) for uuid in stopped} == {(("stop", "done", ""),)}
    assert scene.results(resized) == [("resize", "error", "action_unsupported_by_zone")]
    assert scene.statuses() == {"ACTIVE": 12 - len(stopped), "SHUTOFF": len(stopped)}
    # One call to region; to leaf-a one that is refused, and one for each kind of line in it.
    assert told(scene.tree) == 4
    scene.act(resized, STOP)
    scene.go_on()
    assert scene.results(resized)[1:] == [("stop", "done", "")]


def test_a_proxy_that_refuses_a_call_ends_nothing(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-b")
    proxy = Replace(times=2, path="desired", status=400, body=b"<html>bad request</html>")
    scene.tree.network.fault(scene.tree.nodes["leaf-b"].url, proxy)

    scene.act(uuid, STOP)
    scene.go_on()

    assert scene.results(uuid) == [("stop", "done", "")]


def test_a_proxy_that_knows_no_such_page_ends_nothing(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-b")
    proxy = Replace(times=2, path="desired", status=405, body=b"<html>not allowed</html>")
    scene.tree.network.fault(scene.tree.nodes["leaf-b"].url, proxy)

    scene.act(uuid, STOP)
    scene.go_on()

    assert scene.results(uuid) == [("stop", "done", "")]


def test_a_zone_that_is_removed_ends_the_actions_on_its_servers(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-b")
    scene.tree.network.fault(scene.tree.nodes["leaf-b"].url, Dead())
    scene.act(uuid, STOP)
    root = scene.root.client()
    (child,) = [z for z in root.get("/zones/detail").json["zones"] if z["name"] == "leaf-b"]

    assert root.delete(f"/zones/{child['id']}?force=1").status == 204

    assert scene.results(uuid) == [("stop", "error", "zone_lost")]
    assert root.post(f"/servers/{uuid}/action", START).json["conflictingRequest"]["error_code"] == "has_ended"


def test_a_server_that_its_zone_has_deleted_ends_its_actions(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")
    scene.tree.nodes["leaf-a"].client().delete(f"/servers/{uuid}")

    scene.act(uuid, STOP)
    scene.go_on()

    assert [line[:2] for line in scene.results(uuid)] == [("stop", "error")]
    assert scene.statuses() == {"ACTIVE": 11, "ERROR": 1}


def test_a_server_of_a_parent_is_acted_on_where_its_owner_is(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")

    for name in ("leaf-a", "region"):
        reply = scene.tree.nodes[name].client().post(f"/servers/{uuid}/action", STOP)
        assert (reply.status, reply.json["conflictingRequest"]["error_code"]) == (409, "server_of_parent")


@pytest.mark.parametrize("name", ["root", "region"])
def test_a_zone_that_passes_no_calls_on_says_so(tmp_path: Path, name: str) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")
    scene.tree.nodes[name].zone.conf.set_override("enable_zone_routing", False)

    reply = scene.act(uuid, STOP)
    scene.go_on()

    if name == "root":
        assert reply.json["conflictingRequest"]["error_code"] == "zone_routing_disabled"
        assert scene.results(uuid) == []
    else:
        assert scene.results(uuid) == [("stop", "error", "zone_routing_disabled")]


@pytest.mark.own_statements
def test_a_call_about_what_was_refused_meanwhile_is_a_repeat(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")
    scene.agents["leaf-a"].refuses["paused"] = "driver_failed"
    scene.tree.network.fault(scene.tree.nodes["leaf-a"].url, LostReply(times=1, path="desired"))

    scene.act(uuid, PAUSE)
    for name in ("root", "region"):
        scene.tree.step(name)
    scene.agents["leaf-a"].converge()
    scene.go_on()

    assert scene.results(uuid) == [("pause", "error", "driver_failed")]
    for name in scene.tree.nodes:
        found = ask(tmp_path / f"{name}.sqlite", "SELECT generation, power FROM instance_states")
        assert found == ([(1, "running")] if name != "leaf-b" else [])


@pytest.mark.own_statements
def test_a_reason_of_an_agents_own_stays_in_its_zone(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")
    scene.agents["leaf-a"].refuses["stopped"] = "secret_host_17"

    scene.act(uuid, STOP)
    scene.go_on()

    assert scene.results(uuid) == [("stop", "error", "driver_failed")]
    above = [one for one in scene.tree.network.sent if b"secret_host" in one.body]
    assert above == []
    for name in ("root", "region"):
        rows = ask(tmp_path / f"{name}.sqlite", "SELECT observed_reason FROM instance_states")
        assert rows == [("driver_failed",)]


def test_a_server_that_ends_by_itself_below_is_shutoff_above(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    agent = scene.agents["leaf-a"]
    line = agent.work()[0]

    agent.report([a_report(line, 0, "stopped", "ended_by_itself")])
    agent.power[line["uuid"]] = "stopped"
    scene.tree.settle(3)
    ended = scene.statuses()
    started = scene.act(line["uuid"], START).status
    scene.go_on()

    assert ended == {"ACTIVE": 11, "SHUTOFF": 1}
    assert (started, scene.statuses()) == (202, {"ACTIVE": 12})


# -- databases put back from a copy --------------------------------------------------------------------------


def put_back(tree: Tree, name: str, between: Callable[[], None]) -> None:
    """A zone's database is the one of before `between` again."""
    node = tree.nodes[name]
    file, copy = tree.folder / f"{name}.sqlite", tree.folder / f"{name}.copy"
    copy_database(file, copy)
    between()
    node.zone.store.close()
    replace_database(file, copy)
    tree.restart(name)
    tree.poll()


def test_a_parent_whose_database_was_put_back_still_reaches_its_servers(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")

    def act_three_times() -> None:
        for body in (HARD, STOP, START):
            scene.act(uuid, body)
            scene.go_on()

    put_back(scene.tree, "root", act_three_times)
    scene.act(uuid, HARD)
    scene.go_on()

    assert scene.results(uuid) == [("reboot", "done", "")]
    assert scene.reboots()[uuid] == 2


def test_an_action_after_a_copy_was_put_back_is_not_taken_for_the_lost_one(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")

    def reboot() -> None:
        scene.act(uuid, HARD)
        scene.go_on()

    put_back(scene.tree, "root", reboot)
    # Of the generation that the lost reboot had.
    scene.act(uuid, STOP)
    scene.go_on()

    assert scene.results(uuid) == [("stop", "done", "")]
    assert scene.statuses() == {"ACTIVE": 11, "SHUTOFF": 1}
    assert scene.reboots()[uuid] == 1


def test_a_parent_whose_database_was_put_back_learns_what_is_so(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")

    def reboot_and_stop() -> None:
        for body in (HARD, HARD, STOP):
            scene.act(uuid, body)
            scene.go_on()

    put_back(scene.tree, "root", reboot_and_stop)
    scene.go_on()
    learnt = scene.statuses()
    scene.act(uuid, START)
    scene.go_on()

    assert learnt == {"ACTIVE": 11, "SHUTOFF": 1}
    assert scene.statuses() == {"ACTIVE": 12}
    assert scene.results(uuid) == [("start", "done", "")]


def test_a_child_whose_database_was_put_back_is_told_again(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")
    scene.act(uuid, STOP)
    scene.go_on()

    def start() -> None:
        scene.act(uuid, START)
        scene.go_on()

    put_back(scene.tree, "region", start)
    scene.go_on()
    scene.act(uuid, PAUSE)
    scene.go_on()

    assert scene.results(uuid)[-1] == ("pause", "done", "")
    assert scene.statuses() == {"ACTIVE": 11, "PAUSED": 1}


# -- the call ------------------------------------------------------------------------------------------------


@built_once
def a_leaf(folder: Path) -> Tree:
    """A leaf below a root, with one server of the root."""
    tree = Tree(folder)
    tree.add("root").client().post("/flavors", FLAVOR)
    tree.add("leaf", parent="root", hosts_=[a_host("h1")])
    tree.poll()
    boot(tree, num_instances=1)
    tree.settle()
    return tree


class Leaf:
    """A leaf with its parent's credential, and one running server of it."""

    def __init__(self, folder: Path) -> None:
        self.tree = a_leaf(folder)
        self.leaf = self.tree.nodes["leaf"]
        self.agent = PlayedAgent(self.leaf)
        self.agent.converge()
        (line,) = self.agent.work()
        self.uuid = str(line["uuid"])

    def tell(self, *lines: dict[str, Any], user: str = "parent-root") -> Answer:
        return self.leaf.client(user).post("/servers/desired", {"servers": list(lines)})

    def line(self, generation: int, power: str, **changes: Any) -> dict[str, Any]:
        return {
            "uuid": self.uuid,
            "attempt": 1,
            "generation": generation,
            "power": power,
            "reboots": 0,
            "reboot_type": "SOFT",
            **changes,
        }

    def desired(self) -> tuple[int, str]:
        ((line),) = self.agent.work()
        return line["desired"]["generation"], line["desired"]["power"]


OTHER = "00000000-0000-4000-8000-00000000dead"


def test_only_a_later_state_is_stored_and_a_repeat_has_the_same_answer(tmp_path: Path) -> None:
    leaf = Leaf(tmp_path)

    first = leaf.tell(leaf.line(2, "stopped"))
    again = leaf.tell(leaf.line(2, "stopped"))
    earlier = leaf.tell(leaf.line(1, "paused"))

    resizes = {"begun": 0, "confirmed": 0, "reverted": 0}
    numbers = {"generation": 2, "reboots": 0, "rebuilds": 0, "resizes": resizes}
    stored = {"uuid": leaf.uuid, "attempt": 1, "state": "stored", **numbers}
    assert (first.status, first.json) == (200, {"servers": [stored]})
    assert again.json == earlier.json == first.json
    assert leaf.desired() == (2, "stopped")


@pytest.mark.parametrize("changes", [{"uuid": OTHER}, {"attempt": 2}, {"attempt": 0}])
def test_what_is_not_there_is_gone(tmp_path: Path, changes: dict[str, Any]) -> None:
    leaf = Leaf(tmp_path)

    answer = leaf.tell(leaf.line(1, "stopped") | changes)

    assert [(one["state"], one["generation"]) for one in answer.json["servers"]] == [("gone", 0)]
    assert leaf.desired() == (0, "running")


def test_another_parents_server_is_gone(tmp_path: Path) -> None:
    leaf = Leaf(tmp_path)
    leaf.tree.add("stranger")
    leaf.tree.join("stranger", "leaf")

    answer = leaf.tell(leaf.line(1, "stopped"), user="parent-stranger")

    assert answer.json["servers"][0]["state"] == "gone"
    assert leaf.desired() == (0, "running")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"uuid": "x"}, "servers.0.uuid"),
        ({"attempt": -1}, "servers.0.attempt"),
        ({"generation": 0}, "servers.0.generation"),
        ({"generation": 2**31}, "servers.0.generation"),
        ({"generation": "1"}, "servers.0.generation"),
        ({"power": "off"}, "servers.0.power"),
        ({"reboots": 1.5}, "servers.0.reboots"),
        ({"reboot_type": "soft"}, "servers.0.reboot_type"),
        ({"rebuilds": -1}, "servers.0.rebuilds"),
        ({"rebuilds": 1, "image": 8}, "servers.0.image"),
        ({"rebuilds": 1, "image": 0}, "servers"),
        ({"host": "h1"}, "servers.0.host"),
    ],
)
def test_a_line_of_another_form_is_refused(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    leaf = Leaf(tmp_path)

    reply = leaf.tell(leaf.line(1, "stopped") | changes)

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, field)
    assert leaf.desired() == (0, "running")


def test_a_call_has_a_length_and_names_no_server_twice(tmp_path: Path) -> None:
    leaf = Leaf(tmp_path)
    many = [leaf.line(1, "stopped", uuid=f"{n:08d}-0000-4000-8000-000000000000") for n in range(1001)]

    twice = leaf.tell(leaf.line(1, "stopped"), leaf.line(2, "paused"))

    assert leaf.tell().status == 400
    assert leaf.tell(*many).status == 400
    assert leaf.tell(*many[:1000]).status == 200
    assert (twice.status, twice.json["badRequest"]["field"]) == (400, "servers")
    assert leaf.tell(leaf.line(1, "stopped"), user="admin").status == 403


def test_a_parents_odd_counts_keep_no_other_desired_state_from_being_told(tmp_path: Path) -> None:
    # given
    scene = a_scene(tmp_path)
    odd, other = sorted(line["uuid"] for line in scene.agents["leaf-a"].work())[:2]
    common = {"attempt": 1, "generation": 1, "power": "stopped", "reboots": 0, "reboot_type": "SOFT"}
    resizes = {"begun": 1, "confirmed": 5, "reverted": 5}
    flavor = {"id": "f", "name": "f", "vcpus": 1, "ram": 512, "disk": 1, "extra_specs": {}}
    lines = [{"uuid": odd, **common, "resizes": resizes, "flavor": 0}, {"uuid": other, **common}]
    scene.tree.network.sent.clear()
    # when
    parent = scene.tree.nodes["region"].client("parent-root")
    assert parent.post("/servers/desired", {"servers": lines, "flavors": [flavor]}).status == 200
    for _ in range(3):
        scene.tree.clock.advance(10.0)
        scene.tree.step("region")
    # then
    assert told(scene.tree) == 1


# -- many ----------------------------------------------------------------------------------------------------


class CountedLoop:
    """A loop that only counts how often it is woken."""

    def __init__(self) -> None:
        self.count = 0

    def wake(self) -> bool:
        self.count += 1
        return True


def test_an_action_on_a_boot_that_is_written_in_parts_begins_its_calls_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_scene(tmp_path)
    loop = CountedLoop()
    scene.root.zone.wake.child_call_loops.append(loop)
    monkeypatch.setattr(actions, "PER_WRITE", 5)

    reply = scene.act_on_all(STOP)

    assert (reply.json["accepted"], loop.count) == (12, 1)


def test_a_step_that_is_full_of_desired_states_is_followed_by_another_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_scene(tmp_path)
    zone = scene.root.zone
    scene.act_on_all(STOP)
    monkeypatch.setattr(pending_calls, "CALLS_PER_STEP", 8)
    calls = pending_calls.PendingCalls(zone)

    assert [calls.step(), calls.step()] == [0.0, zone.conf.retry_pause]


@pytest.mark.slow
def test_a_stop_of_a_thousand_servers_over_thirteen_zones(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root").client().post("/flavors", FLAVOR)
    for n in range(3):
        tree.add(f"region-{n}", parent="root")
        for m in range(3):
            hosts = [a_host(f"h{k}", vcpus=64, ram_mb=10**6, disk_gb=10**5) for k in range(4)]
            tree.add(f"leaf-{n}-{m}", parent=f"region-{n}", hosts_=hosts)
    tree.poll()
    reservation_id = boot(tree, num_instances=1000)
    tree.settle()
    agents = agents_of(tree)
    for agent in agents.values():
        agent.converge()
    tree.settle(3)
    root = tree.nodes["root"].client()
    path = f"/reservations/{reservation_id}"
    assert root.get(path).json["reservation"]["counts"] == {"ACTIVE": 1000}
    tree.network.sent.clear()
    began_at = tree.clock.now()

    reply = root.post(f"{path}/action", STOP)
    while any(line["desired"]["power"] != "stopped" for a in agents.values() for line in a.work()):
        for node in tree.nodes.values():
            assert tree.clock.now() - began_at <= 2.0
            tree.step(node.name)
        tree.clock.advance(0.5)

    assert reply.json["accepted"] == 1000
    assert told(tree) == 12
    assert len(tree.network.sent) <= 40
    for agent in agents.values():
        agent.converge()
    tree.settle(3)
    assert root.get(path).json["reservation"]["counts"] == {"SHUTOFF": 1000}
    for node in tree.nodes.values():
        assert (list(audit.run(node.zone)), list(audit_edges.across_edges(node.zone))) == ([], [])
