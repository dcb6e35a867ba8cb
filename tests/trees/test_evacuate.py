"""Evacuation of hosts that are down: refused while anything may run there, then placed anew once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, settle_until_killed
from tests.builders.crashes import Seams
from tests.builders.one_zone import sql
from tests.builders.played_agent import PlayedAgent, a_report
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from tests.trees.test_actions_in_tree import Scene, a_scene
from tests.trees.test_shelve_in_tree import differences, places, zone_of
from zonesched.services.audit import audit

FENCED = {"evacuate": {"fenced": True}}


@built_once
def a_zone_with_a_flavor(folder: Path) -> Tree:
    tree = Tree(folder)
    tree.add("leaf", hosts_=[a_host("h1", vcpus=2)]).client().post("/flavors", FLAVOR)
    return tree


class Zone:
    """A zone with two hosts and a server on the first, whose agent is down or forced down as a test likes."""

    def __init__(self, folder: Path, **server: Any) -> None:
        self.tree = a_zone_with_a_flavor(folder)
        self.node: Node = self.tree.nodes["leaf"]
        self.admin, self.member = self.node.client(), self.node.client("member")
        self.agent = PlayedAgent(self.node)
        body = {"server": {"name": "vm", "flavorRef": "small", **server}}
        self.uuid = str(self.member.post("/servers", body).json["server"]["id"])
        self.settle()
        self.tree.register("leaf", [a_host("h1", vcpus=2), a_host("h2", vcpus=2)])
        self.host_id = self.id_of("h1")

    def id_of(self, name: str) -> str:
        listed = self.admin.get("/os-hypervisors/detail").json["hypervisors"]
        return next(str(one["id"]) for one in listed if one["hypervisor_hostname"] == name)

    def settle(self) -> None:
        for _ in range(2):
            self.tree.settle()
            self.agent.converge()

    def force_down(self) -> None:
        self.admin.call("PUT", f"/os-services/{self.host_id}", {"forced_down": True})

    def evacuate(self, body: Any = FENCED) -> Answer:
        return self.admin.post(f"/os-services/{self.host_id}/action", body)

    def status(self) -> str:
        return str(self.member.get(f"/servers/{self.uuid}").json["server"]["status"])

    def host(self) -> str:
        shown = self.admin.get(f"/servers/{self.uuid}").json["server"]
        return str(shown.get("OS-EXT-SRV-ATTR:host", ""))

    def results(self) -> list[tuple[str, str | None, str]]:
        lines = self.member.get(f"/servers/{self.uuid}/os-instance-actions").json["instanceActions"]
        return [(one["action"], one["result"], one["error_code"]) for one in reversed(lines)][1:]

    def used(self, name: str) -> int:
        listed = self.admin.get("/os-hypervisors/detail").json["hypervisors"]
        return next(int(one["vcpus_used"]) for one in listed if one["hypervisor_hostname"] == name)


def code(reply: Answer) -> tuple[int, str]:
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]


def test_a_host_that_is_up_is_not_evacuated(tmp_path: Path) -> None:
    zone = Zone(tmp_path)

    assert code(zone.evacuate()) == (409, "host_is_up")
    assert (zone.status(), zone.host()) == ("ACTIVE", "h1")


@pytest.mark.parametrize("body", [{"evacuate": {}}, {"evacuate": {"fenced": False}}])
def test_a_host_on_which_something_may_run_is_not_evacuated(tmp_path: Path, body: Any) -> None:
    zone = Zone(tmp_path)
    zone.force_down()

    assert code(zone.evacuate(body)) == (409, "host_not_fenced")
    assert (zone.status(), zone.results()) == ("ACTIVE", [])


@pytest.mark.parametrize(
    ("shared", "answer"),
    [
        (False, (409, "host_not_fenced")),
        ("False", (409, "host_not_fenced")),
        (True, (400, "invalid_value")),
    ],
)
def test_a_client_of_an_old_version_says_that_no_storage_is_shared(
    tmp_path: Path, shared: Any, answer: Any
) -> None:
    zone = Zone(tmp_path)
    zone.force_down()

    reply = zone.admin.post(f"/servers/{zone.uuid}/action", {"evacuate": {"onSharedStorage": shared}})
    fenced = {"evacuate": {"onSharedStorage": False, "fenced": True}}

    assert code(reply) == answer
    taken = zone.admin.post(f"/servers/{zone.uuid}/action", fenced)
    assert (taken.status, taken.body) == (200, b"")


def test_a_host_that_was_not_heard_is_down(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.tree.clock.advance(zone.node.zone.conf.service_down_time + 1.0)

    assert zone.evacuate().status == 202


def test_servers_run_anew_elsewhere_and_the_old_place_waits_for_its_agent(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.force_down()

    reply = zone.evacuate()
    zone.tree.settle()
    (line,) = zone.agent.work()
    claimed = (zone.used("h1"), zone.used("h2"))
    zone.settle()

    assert (reply.status, reply.json) == (202, {"evacuated": 1, "moving": 0})
    assert (line["host"], line["attempt"]) == ("h2", 2)
    assert claimed == (2, 2)
    assert (zone.status(), zone.host()) == ("ACTIVE", "h2")
    assert zone.results() == [("evacuate", "done", "")]
    assert (zone.used("h1"), zone.used("h2")) == (0, 2)
    assert audit.run(zone.node.zone) == []


def test_builds_that_failed_at_its_first_boot_do_not_count_against_its_new_place(tmp_path: Path) -> None:
    # given a server that took all builds but one to come to its host, long ago
    zone = Zone(tmp_path)
    zone.tree.register("leaf", [a_host(name, vcpus=2) for name in ("h1", "h2", "h3")])
    attempts = zone.node.zone.conf.max_attempts
    sql(zone.node.zone, "UPDATE instances SET failed_builds = :failed", failed=attempts - 1)
    zone.force_down()

    # when the first build at a new place fails
    zone.evacuate()
    zone.tree.settle()
    (line,) = zone.agent.work()
    zone.agent.report([{"uuid": zone.uuid, "attempt": line["attempt"], "state": "error", "reason": "broken"}])
    zone.settle()

    assert (zone.status(), {line["host"], zone.host()}) == ("ACTIVE", {"h2", "h3"})
    assert zone.results() == [("evacuate", "done", "")]


def test_a_repeat_evacuates_nothing_more(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.force_down()

    counts = [zone.evacuate().json["evacuated"] for _ in range(2)]

    assert counts == [1, 0]


def test_a_stopped_server_stays_stopped(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.member.post(f"/servers/{zone.uuid}/action", {"os-stop": None})
    zone.settle()
    zone.force_down()

    zone.evacuate()
    zone.settle()

    assert (zone.status(), zone.host()) == ("SHUTOFF", "h2")


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_server_that_ended_by_itself_or_refused_to_start_is_not_started(
    tmp_path: Path, is_refused: bool
) -> None:
    zone = Zone(tmp_path)
    (line,) = zone.agent.work()
    zone.agent.report([a_report(line, 0, "stopped", "process_ended")])
    zone.agent.power[zone.uuid] = "stopped"
    if is_refused:
        zone.agent.refuses["running"] = "driver_failed"
        zone.member.post(f"/servers/{zone.uuid}/action", {"os-start": None})
        zone.settle()
        assert zone.results() == [("start", "error", "driver_failed")]
        zone.agent.refuses.clear()
    zone.force_down()

    zone.evacuate()
    zone.settle()

    assert (zone.status(), zone.host()) == ("SHUTOFF", "h2")


def test_an_action_that_the_host_never_did_ends(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.force_down()
    zone.member.post(f"/servers/{zone.uuid}/action", {"pause": None})

    zone.evacuate()
    zone.settle()

    assert zone.results() == [("pause", "error", "host_evacuated"), ("evacuate", "done", "")]
    assert zone.status() == "ACTIVE"


def test_without_room_a_server_rests_and_can_be_unshelved(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.admin.call("PUT", f"/os-services/{zone.id_of('h2')}", {"status": "disabled"})
    zone.force_down()

    zone.evacuate()
    zone.settle()
    resting = (zone.status(), zone.results())
    zone.admin.call("PUT", f"/os-services/{zone.id_of('h2')}", {"status": "enabled"})
    unshelved = zone.member.post(f"/servers/{zone.uuid}/action", {"unshelve": None})
    zone.settle()

    assert resting == ("SHELVED_OFFLOADED", [("evacuate", "error", "no_valid_host")])
    assert (unshelved.status, zone.status(), zone.host()) == (202, "ACTIVE", "h2")


def test_a_server_whose_owner_wants_no_rebuild_elsewhere_rests(tmp_path: Path) -> None:
    zone = Zone(tmp_path, metadata={"rebuild_elsewhere": "false"})
    zone.force_down()

    zone.evacuate()
    zone.settle()

    assert (zone.status(), zone.results(), zone.used("h2")) == ("SHELVED_OFFLOADED", [], 0)
    assert audit.run(zone.node.zone) == []


@pytest.mark.parametrize(
    ("metadata", "task"),
    [({"rebuild_elsewhere": "false"}, None), ({}, "unshelving")],
    ids=["rests", "goes on"],
)
def test_an_evacuated_server_is_shown_on_no_host_while_the_old_one_is_claimed(
    tmp_path: Path, metadata: dict[str, str], task: str | None
) -> None:
    zone = Zone(tmp_path, metadata=metadata)
    zone.force_down()

    zone.evacuate()

    shown = zone.admin.get(f"/servers/{zone.uuid}").json["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("SHELVED_OFFLOADED", task)
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["hostId"]) == (None, "")
    assert zone.admin.get("/servers/detail?all_tenants=1&host=h1").json["servers"] == []
    assert zone.used("h1") == 2


@pytest.mark.parametrize("whole_host", [True, False])
def test_a_server_that_was_being_shelved_there_is_offloaded(tmp_path: Path, whole_host: bool) -> None:
    zone = Zone(tmp_path)
    path = f"/servers/{zone.uuid}/action"
    zone.force_down()
    zone.member.post(path, {"shelve": None})
    zone.tree.settle()
    shelving = (zone.status(), zone.results())

    reply = zone.evacuate() if whole_host else zone.admin.post(path, FENCED)
    offloaded = (reply.status, zone.status(), zone.results(), zone.used("h1"))
    repeated = zone.evacuate().json if whole_host else code(zone.admin.post(path, FENCED))
    unshelved = zone.member.post(path, {"unshelve": None})
    zone.settle()

    assert shelving == ("ACTIVE", [("shelve", None, "")])
    # The old place keeps its claim until its agent is back.
    taken = 202 if whole_host else 200
    assert offloaded == (taken, "SHELVED_OFFLOADED", [("shelve", "done", "")], 2)
    assert repeated == ({"evacuated": 0, "moving": 0} if whole_host else (409, "server_on_no_host"))
    assert (unshelved.status, zone.status(), zone.host()) == (202, "ACTIVE", "h2")
    assert (zone.used("h1"), zone.used("h2")) == (0, 2)
    assert audit.run(zone.node.zone) == []


def test_a_server_being_shelved_stays_so_while_something_may_run_there(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.force_down()
    zone.member.post(f"/servers/{zone.uuid}/action", {"shelve": None})

    for refused in (
        zone.evacuate({"evacuate": {}}),
        zone.admin.post(f"/servers/{zone.uuid}/action", {"evacuate": {}}),
    ):
        assert code(refused) == (409, "host_not_fenced")
    assert zone.results() == [("shelve", None, "")]


def test_one_server_is_evacuated_by_an_admin_alone(tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.force_down()
    path = f"/servers/{zone.uuid}/action"

    by_member = zone.member.post(path, FENCED)
    unfenced = zone.admin.post(path, {"evacuate": {}})
    moved = zone.admin.post(path, FENCED)
    zone.settle()

    assert (by_member.status, code(unfenced), moved.status) == (403, (409, "host_not_fenced"), 200)
    assert (zone.host(), zone.results()) == ("h2", [("evacuate", "done", "")])


def test_what_no_host_of_the_zone_has_is_not_evacuated_there(tmp_path: Path) -> None:
    scene = a_scene(tmp_path)
    uuid = scene.in_zone("leaf-a")

    assert code(scene.act(uuid, FENCED)) == (409, "server_on_no_host")
    assert code(scene.act_on_all(FENCED)) == (400, "action_of_one_server")


# -- in a tree ---------------------------------------------------------------------------------------------


def with_room(folder: Path) -> Scene:
    """Twelve servers in a tree with room for more, at the root."""
    scene = a_scene(folder)
    scene.tree.register("root", [a_host("r1", vcpus=4), a_host("r2", vcpus=16)])
    scene.tree.poll()
    return scene


def evacuate(scene: Scene, zone: str) -> None:
    """Force all hosts of a zone down, and evacuate them."""
    admin = scene.tree.nodes[zone].client()
    for host in admin.get("/os-hypervisors/detail").json["hypervisors"]:
        admin.call("PUT", f"/os-services/{host['id']}", {"forced_down": True})
        assert admin.post(f"/os-services/{host['id']}/action", FENCED).status == 202


def test_servers_of_a_parent_go_up_and_are_placed_in_another_zone(tmp_path: Path) -> None:
    scene = with_room(tmp_path)
    uuid = scene.in_zone("leaf-a")

    evacuate(scene, "leaf-a")
    scene.go_on(5)

    assert zone_of(scene, uuid) in ("root", "leaf-b")
    assert "leaf-a" not in {zone for zone, _ in places(scene)}
    assert scene.results(uuid) == [("evacuate", "done", "")]
    assert scene.statuses() == {"ACTIVE": 12}
    assert differences(scene.tree) == []


def test_a_server_of_a_parent_that_was_being_shelved_is_offloaded_there_too(tmp_path: Path) -> None:
    scene = with_room(tmp_path)
    uuid = scene.in_zone("leaf-a")
    scene.act(uuid, {"shelve": None})
    scene.tree.settle()

    evacuate(scene, "leaf-a")
    scene.go_on(5)
    assert differences(scene.tree) == []

    assert scene.results(uuid) == [("shelve", "done", "")]
    assert scene.statuses() == {"ACTIVE": 11, "SHELVED_OFFLOADED": 1}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["root", "region", "leaf-a"])
def test_a_zone_killed_at_any_step(tmp_path: Path, victim: str) -> None:
    before = with_room(tmp_path)
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        scene = Scene(before.tree.copy_to(tmp_path / str(kill_at)), before.reservation_id)
        scene.tree.poll()
        evacuate(scene, "leaf-a")
        seams = Seams(scene.tree, victim, kill_at)

        killed = settle_until_killed(scene.tree, seams)

        scene.recover()
        assert scene.statuses() == {"ACTIVE": 12}, f"killed at {kill_at}"
        running = [uuid for _, uuid in places(scene)]
        assert sorted(running) == sorted(scene.uuids), f"killed at {kill_at}"
        assert differences(scene.tree) == [], f"killed at {kill_at}"
    assert kill_at > 3
