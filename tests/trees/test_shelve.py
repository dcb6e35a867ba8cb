"""Shelve and unshelve of servers of one zone: over HTTP, with an agent played by its own calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent, a_report
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.services.audit import audit

SHELVE, UNSHELVE, STOP = {"shelve": None}, {"unshelve": None}, {"os-stop": None}


@built_once
def a_zone_with_a_flavor(folder: Path) -> Tree:
    tree = Tree(folder)
    tree.add("leaf", hosts_=[a_host("h1", vcpus=4)]).client().post("/flavors", FLAVOR)
    return tree


class Scene:
    """A zone with one host for two servers, its agent, and a member."""

    def __init__(self, folder: Path) -> None:
        self.tree = a_zone_with_a_flavor(folder)
        self.node: Node = self.tree.nodes["leaf"]
        self.agent = PlayedAgent(self.node)
        self.member = self.node.client("member")

    def configure(self, **options: Any) -> None:
        """Start the zone anew with these options."""
        for name, value in options.items():
            self.node.zone.conf.set_override(name, value)
        self.tree.restart("leaf")
        self.node = self.agent.node = self.tree.nodes["leaf"]
        self.member = self.node.client("member")

    def boot(self, count: int = 1, **server: Any) -> list[str]:
        body = {"name": "vm", "flavorRef": "small", "num_instances": count, **server}
        made = self.member.post("/zones/boot", {"server": body})
        self.settle()
        return self.members(made.json["reservation_id"])

    def members(self, reservation_id: str) -> list[str]:
        shown = self.member.get(f"/reservations/{reservation_id}").json["reservation"]
        return [line["uuid"] for line in shown["instances"]]

    def act(self, uuid: str, body: Any) -> Answer:
        return self.member.post(f"/servers/{uuid}/action", body)

    def settle(self) -> None:
        self.tree.settle()
        self.agent.converge()
        self.agent.converge()

    def shelved(self) -> str:
        (uuid,) = self.boot()
        assert self.act(uuid, SHELVE).status == 202
        self.settle()
        return uuid

    def fail_to_unshelve(self, uuid: str) -> None:
        """Unshelve a server whose builds all fail."""
        self.act(uuid, UNSHELVE)
        for _ in range(self.node.zone.conf.max_attempts):
            self.tree.settle()
            self.agent.report(
                [{**a_report(line, 0, "running"), "state": "error"} for line in self.agent.work()]
            )
        self.settle()

    def shown(self, uuid: str) -> dict[str, Any]:
        found: dict[str, Any] = self.member.get(f"/servers/{uuid}").json["server"]
        return found

    def states(self, uuid: str) -> tuple[str, str, str | None]:
        shown = self.shown(uuid)
        return shown["status"], shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:task_state"]

    def results(self, uuid: str) -> list[tuple[str, str | None, str]]:
        """The actions on a server since its creation, oldest first."""
        lines = self.member.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
        return [(one["action"], one["result"], one["error_code"]) for one in reversed(lines)][1:]

    def used(self) -> int:
        shown = self.node.client().get("/os-hypervisors/detail").json["hypervisors"]
        return sum(one["vcpus_used"] for one in shown)

    def audit(self) -> list[Any]:
        return list(audit.run(self.node.zone))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def code(reply: Answer) -> tuple[int, str]:
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]


def test_a_shelved_server_keeps_its_claim_until_its_agent_has_ended_it(scene: Scene) -> None:
    (uuid,) = scene.boot()

    reply = scene.act(uuid, SHELVE)
    under_way = (scene.states(uuid), scene.used(), scene.agent.work(), scene.audit())
    scene.agent.converge()

    assert (reply.status, reply.body) == (202, b"")
    assert under_way == (("ACTIVE", "active", "shelving"), 2, [], [])
    assert scene.states(uuid) == ("SHELVED_OFFLOADED", "shelved_offloaded", None)
    assert scene.results(uuid) == [("shelve", "done", "")]
    assert (scene.used(), scene.shown(uuid)["hostId"], scene.audit()) == (0, "", [])


def test_an_unshelved_server_is_weighed_as_its_zone_weighs_now(scene: Scene) -> None:
    # given a server of a boot that was weighed by a weigher that the zone no longer has
    scene.configure(weight_classes=["tests.builders.own_plugins.NanWeigher"])
    uuid = scene.shelved()
    scene.configure(weight_classes=["RAMWeigher"])

    scene.act(uuid, UNSHELVE)
    scene.settle()

    assert scene.results(uuid)[-1] == ("unshelve", "done", "")


def test_servers_of_several_flavors_are_unshelved_together(scene: Scene) -> None:
    # given two servers of one boot, of which one was resized, in a zone that selects once for a boot
    scene.configure(max_attempts=1)
    scene.tree.register("leaf", [a_host("h1", vcpus=8)])
    slim = {"flavor": {**FLAVOR["flavor"], "id": "slim", "name": "slim", "vcpus": 1}}
    assert scene.node.client().post("/flavors", slim).status == 200
    uuids = scene.boot(2)
    for body in ({"resize": {"flavorRef": "slim"}}, {"confirmResize": None}):
        scene.act(uuids[0], body)
        scene.settle()
        scene.settle()

    for body in (SHELVE, UNSHELVE):
        for uuid in uuids:
            scene.act(uuid, body)
        scene.settle()

    assert [scene.results(uuid)[-1] for uuid in uuids] == [("unshelve", "done", "")] * 2
    assert scene.used() == 1 + 2


def test_an_offloaded_server_rests_until_it_is_unshelved(scene: Scene) -> None:
    uuid = scene.shelved()
    scene.tree.clock.advance(3600.0)
    scene.settle()
    resting = (scene.states(uuid)[0], scene.agent.work())

    reply = scene.act(uuid, UNSHELVE)
    asked = scene.states(uuid)
    scene.tree.settle()
    (line,) = scene.agent.work()
    placed = scene.states(uuid)
    scene.settle()

    assert resting == ("SHELVED_OFFLOADED", [])
    assert reply.status == 202
    assert asked == placed == ("SHELVED_OFFLOADED", "shelved_offloaded", "unshelving")
    assert (line["attempt"], line["desired"]["power"]) == (2, "running")
    assert line["observed"] == {"generation": 0, "power": "running", "rebuilds": 0}
    assert scene.states(uuid) == ("ACTIVE", "active", None)
    assert scene.results(uuid) == [("shelve", "done", ""), ("unshelve", "done", "")]
    assert (scene.used(), scene.audit()) == (2, [])


def test_its_usage_has_the_state_in_which_a_server_is_shown_while_it_is_unshelved(scene: Scene) -> None:
    uuid = scene.shelved()

    scene.act(uuid, UNSHELVE)

    (usage,) = scene.member.get("/os-simple-tenant-usage/project-1").json["tenant_usage"]["server_usages"]
    assert usage["state"] == scene.shown(uuid)["OS-EXT-STS:vm_state"] == "shelved_offloaded"


def test_what_is_the_owners_is_kept(scene: Scene) -> None:
    (uuid,) = scene.boot(metadata={"a": "b"})
    scene.member.call("PUT", f"/servers/{uuid}", {"server": {"name": "renamed"}})
    before = scene.shown(uuid)

    for body in (SHELVE, UNSHELVE):
        scene.act(uuid, body)
        scene.settle()

    kept = ("id", "name", "flavor", "image", "metadata", "tags", "key_name", "reservation_id", "created")
    after = scene.shown(uuid)
    assert before["name"] == "renamed"
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


@pytest.mark.parametrize("body", [STOP, {"pause": None}, {"suspend": None}])
def test_a_server_that_does_not_run_can_be_shelved_and_runs_again(scene: Scene, body: Any) -> None:
    (uuid,) = scene.boot()
    scene.act(uuid, body)
    scene.settle()

    scene.act(uuid, SHELVE)
    scene.settle()
    scene.act(uuid, UNSHELVE)
    scene.settle()

    assert scene.states(uuid) == ("ACTIVE", "active", None)


def test_reboots_before_a_shelve_are_not_done_at_the_next_place(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.act(uuid, {"reboot": {"type": "HARD"}})
    scene.settle()
    scene.act(uuid, SHELVE)
    scene.settle()

    scene.act(uuid, UNSHELVE)
    scene.tree.settle()

    (line,) = scene.agent.work()
    assert (line["desired"]["reboots"], line["desired"]["generation"]) == (0, 3)


def test_without_room_a_server_stays_offloaded_and_the_action_says_why(scene: Scene) -> None:
    uuid = scene.shelved()
    others = scene.boot(2)

    scene.act(uuid, UNSHELVE)
    scene.settle()
    refused = (scene.states(uuid), scene.results(uuid)[-1])
    listed = scene.member.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"][0]
    scene.member.delete(f"/servers/{others[0]}")
    scene.act(uuid, UNSHELVE)
    scene.settle()

    assert refused == (
        ("SHELVED_OFFLOADED", "shelved_offloaded", None),
        ("unshelve", "error", "no_valid_host"),
    )
    assert listed["message"] == "No zone has room for this request."
    assert scene.states(uuid) == ("ACTIVE", "active", None)
    assert scene.audit() == []


@pytest.mark.parametrize("hint", ["force_hosts", "requested_host"])
@pytest.mark.parametrize("is_evacuated", [False, True])
def test_a_host_that_was_named_for_the_boot_does_not_hold_for_another_place(
    scene: Scene, hint: str, is_evacuated: bool
) -> None:
    scene.tree.register("leaf", [a_host("h1", vcpus=4), a_host("h2")])
    admin = scene.node.client()
    server = {"name": "vm", "flavorRef": "small", "imageRef": ""}
    made = admin.post("/servers", {"server": server, "os:scheduler_hints": {hint: "h1"}})
    uuid = made.json["server"]["id"]
    scene.settle()

    (first,) = admin.get("/os-services?host=h1").json["services"]
    if is_evacuated:
        admin.call("PUT", f"/os-services/{first['id']}", {"forced_down": True})
        assert admin.post(f"/servers/{uuid}/action", {"evacuate": {"fenced": True}}).status == 200
    else:
        admin.call("PUT", f"/os-services/{first['id']}", {"status": "disabled"})
        admin.post(f"/servers/{uuid}/action", SHELVE)
        scene.settle()
        admin.post(f"/servers/{uuid}/action", UNSHELVE)
    scene.settle()

    assert admin.get(f"/servers/{uuid}").json["server"]["OS-EXT-SRV-ATTR:host"] == "h2"


def test_a_server_that_finds_no_place_ends_no_other_of_its_boot(scene: Scene) -> None:
    first, second = scene.boot(2)
    scene.act(first, SHELVE)
    scene.settle()
    scene.boot()

    scene.act(first, UNSHELVE)
    scene.settle()

    assert scene.states(first)[0] == "SHELVED_OFFLOADED"
    assert scene.states(second)[0] == "ACTIVE"


def test_builds_that_fail_at_the_new_place_leave_the_server_offloaded(scene: Scene) -> None:
    uuid = scene.shelved()

    scene.fail_to_unshelve(uuid)

    assert scene.states(uuid)[0] == "SHELVED_OFFLOADED"
    assert scene.results(uuid)[-1][:2] == ("unshelve", "error")
    assert (scene.used(), scene.audit()) == (0, [])


def test_a_host_whose_builds_failed_long_ago_takes_an_unshelved_server(scene: Scene) -> None:
    uuid = scene.shelved()
    scene.fail_to_unshelve(uuid)
    assert scene.states(uuid)[0] == "SHELVED_OFFLOADED"

    scene.tree.clock.advance(scene.node.zone.conf.retry_window + scene.node.zone.conf.hold + 1)
    scene.tree.beat()
    scene.act(uuid, UNSHELVE)
    scene.settle()

    assert scene.states(uuid)[0] == "ACTIVE"


def test_a_place_to_unshelve_to_is_overlooked_in_versions_that_do_not_know_it(scene: Scene) -> None:
    """Unshelve as Terraform does, which names the server's availability zone and no version."""
    uuid = scene.shelved()
    body = {"unshelve": {"availability_zone": "elsewhere"}}
    path, version = f"/servers/{uuid}/action", "OpenStack-API-Version"

    known = scene.member.call("POST", path, body, headers={version: "compute 2.77"})
    unknown = scene.member.call("POST", path, body, headers={version: "compute 2.76"})
    scene.settle()

    assert (known.status, known.json["badRequest"]["field"]) == (400, "unshelve")
    assert unknown.status == 202
    assert scene.states(uuid)[0] == "ACTIVE"


def test_which_actions_an_offloaded_server_takes(scene: Scene) -> None:
    (uuid,) = scene.boot()
    not_yet = scene.act(uuid, UNSHELVE)
    scene.act(uuid, SHELVE)
    leaving = [scene.act(uuid, body) for body in (UNSHELVE, SHELVE, STOP)]
    scene.settle()
    resting = [scene.act(uuid, body) for body in (SHELVE, STOP, {"os-start": None})]

    assert code(not_yet) == (409, "wrong_status")
    assert [code(one)[1] for one in leaving] == ["still_shelving", "wrong_status", "wrong_status"]
    assert [code(one)[1] for one in resting] == ["wrong_status"] * 3


def test_lists_and_counts_know_the_status(scene: Scene) -> None:
    first, second = scene.boot(2)
    scene.act(first, SHELVE)
    scene.settle()
    scene.act(first, UNSHELVE)

    def of(status: str) -> list[str]:
        return [one["id"] for one in scene.member.get(f"/servers?status={status}").json["servers"]]

    coming_back = (of("SHELVED_OFFLOADED"), of("BUILD"), of("ACTIVE"))
    counts = scene.member.get("/reservations").json["reservations"][0]["counts"]
    scene.settle()

    assert coming_back == ([first], [], [second])
    assert counts == {"ACTIVE": 1, "SHELVED_OFFLOADED": 1}
    assert (of("SHELVED_OFFLOADED"), set(of("ACTIVE"))) == ([], {first, second})


def test_a_server_deleted_while_it_leaves_or_rests_is_gone(scene: Scene) -> None:
    (leaving,) = scene.boot()
    resting = scene.shelved()
    scene.act(leaving, SHELVE)

    replies = [scene.member.delete(f"/servers/{uuid}").status for uuid in (leaving, resting)]
    scene.settle()

    assert replies == [204, 204]
    assert [scene.member.get(f"/servers/{uuid}").status for uuid in (leaving, resting)] == [404, 404]
    assert (scene.used(), scene.agent.work(), scene.audit()) == (0, [], [])


def test_a_host_on_which_a_shelved_server_may_still_run_is_not_removed(scene: Scene) -> None:
    # given a server that is being shelved on a host whose agent still has it
    (uuid,) = scene.boot()
    scene.act(uuid, SHELVE)
    admin = scene.node.client()
    (host,) = admin.get("/os-services?binary=nova-compute").json["services"][:1]
    path = f"/os-services/{host['id']}"
    # when the host is removed, also once it has been evacuated
    refused = admin.delete(path)
    waiting = scene.act(uuid, UNSHELVE)
    admin.call("PUT", path, {"forced_down": True})
    assert admin.post(f"{path}/action", {"evacuate": {"fenced": True}}).status == 202
    removed = admin.delete(path)
    # then it rests since its operator has said that nothing runs there
    assert (refused.status, refused.json["conflictingRequest"]["error_code"]) == (409, "host_has_instances")
    assert waiting.json["conflictingRequest"]["error_code"] == "still_shelving"
    assert removed.status == 204
    assert scene.states(uuid)[0] == "SHELVED_OFFLOADED"
    assert scene.results(uuid) == [("shelve", "done", "")]


def test_an_offloaded_server_counts_against_the_quota(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    uuid = scene.shelved()
    limits = {"limits": {"project_instances": 1}}
    given = scene.node.client().call("PUT", "/limits/projects/project-1", limits)

    body = {"server": {"name": "vm", "flavorRef": "small"}}
    refused = scene.member.post("/servers", body)
    scene.member.delete(f"/servers/{uuid}")
    accepted = scene.member.post("/servers", body)

    assert (given.status, refused.status, accepted.status) == (200, 429, 202)


def test_a_locked_server_is_not_shelved_by_a_member(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.act(uuid, {"lock": None})

    assert code(scene.act(uuid, SHELVE)) == (409, "server_locked")


def test_a_rebuilt_server_comes_back_with_its_own_image(scene: Scene) -> None:
    admin = scene.node.client()
    ids = [admin.post("/images", {"image": {"name": name}}).json["image"]["id"] for name in ("old", "new")]
    (uuid,) = scene.boot(imageRef=ids[0])
    scene.act(uuid, {"rebuild": {"imageRef": ids[1]}})
    scene.settle()

    scene.act(uuid, SHELVE)
    scene.settle()
    resting = scene.shown(uuid)["image"]["id"]
    scene.act(uuid, UNSHELVE)
    scene.settle()

    (line,) = scene.agent.work()
    assert resting == scene.shown(uuid)["image"]["id"] == line["image"]["id"] == ids[1]
    assert scene.results(uuid)[1:] == [("shelve", "done", ""), ("unshelve", "done", "")]
