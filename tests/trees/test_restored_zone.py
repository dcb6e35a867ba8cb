"""A zone whose database is put back from a copy while its agents, its parent and its children go on.

Nothing is over-committed anywhere, nothing runs twice, and nothing is forgotten silently.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Before, Scene, a_scene
from tests.builders.wsgi_transport import Replace

pytestmark = pytest.mark.same_statements

ANOTHER = "00000000-0000-4000-8000-000000000001"
ZONES = ["root", "region", "leaf"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return a_scene(tmp_path)


@pytest.mark.parametrize("zone", ["region", "leaf"])
def test_what_was_built_after_the_copy_runs_on_and_is_adopted(scene: Scene, zone: str) -> None:
    old = scene.booted(2)
    copy = scene.copy(zone)
    new = scene.booted(3)
    running = scene.agents["leaf"].running

    scene.restore(zone, copy)
    scene.work()
    unchanged = scene.agents["leaf"].running, scene.servers()
    scene.recovered(zone)

    assert unchanged == (running, dict.fromkeys(old | new, "ACTIVE"))
    assert scene.agents["leaf"].running == running
    assert scene.servers() == dict.fromkeys(old | new, "ACTIVE")
    assert set(scene.servers(zone)) == old | new
    assert scene.claimed_vcpus("leaf") == 10
    assert len(scene.agents["leaf"].driver.spawned) == 5
    nothing_is_wrong(scene.tree)
    scene.delete(new)
    assert scene.agents["leaf"].uuids() == old
    assert scene.claimed_vcpus("leaf") == 4


def test_a_child_is_restored_too_that_has_what_its_restored_parent_has_adopted(scene: Scene) -> None:
    copy_of_root = scene.copy("root")
    adopted = scene.booted(2)
    scene.restore("root", copy_of_root)
    scene.recovered("root")
    scene.restore("region", scene.copy("region"))

    scene.recovered("region")

    assert scene.health("region") == "ok"
    assert scene.servers() == scene.servers("region") == dict.fromkeys(adopted, "ACTIVE")
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["region", "leaf"])
def test_what_was_deleted_after_the_copy_does_not_come_back(scene: Scene, zone: str) -> None:
    kept, deleted = scene.booted(1), scene.booted(2)
    copy = scene.copy(zone)
    scene.delete(deleted)
    built = len(scene.agents["leaf"].driver.spawned)

    scene.restore(zone, copy)
    scene.recovered(zone)

    assert scene.agents["leaf"].uuids() == kept
    assert len(scene.agents["leaf"].driver.spawned) == built
    assert scene.claimed_vcpus("leaf") == 2
    assert {uuid for uuid, status in scene.servers(zone).items() if status != "DELETED"} == kept
    nothing_is_wrong(scene.tree)


def test_a_user_of_the_restored_zone_finds_what_ended_since_in_error(scene: Scene) -> None:
    deleted = scene.booted(2, "leaf")
    copy = scene.copy("leaf")
    scene.delete(deleted, "leaf")

    scene.restore("leaf", copy)
    scene.recovered("leaf")

    assert scene.servers("leaf") == dict.fromkeys(deleted, "ERROR")
    assert scene.agents["leaf"].uuids() == set()
    assert scene.claimed_vcpus("leaf") == 0


def test_a_restored_zone_does_nothing_before_its_operator_says_so(scene: Scene) -> None:
    scene.booted(1)
    copy = scene.copy("leaf")
    scene.restore("leaf", copy)
    leaf, root = (scene.tree.nodes[name].client() for name in ("leaf", "root"))

    refused = leaf.post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    scene.work(1)
    waiting = scene.audit("leaf")
    reservation_id = scene.boot(1)
    scene.work(1)
    nowhere = root.get(f"/reservations/{reservation_id}").json["reservation"]["counts"]

    assert (refused.status, refused.json["serviceUnavailable"]["error_code"]) == (503, "zone_restored")
    assert refused.headers["Retry-After"] == "5"
    assert scene.health("leaf") == "recovering"
    assert [line["kind"] for line in waiting] == ["recovery_open"]
    assert "ACTIVE" not in nowhere
    assert len(scene.agents["leaf"].driver.spawned) == 1
    scene.recovered("leaf")
    assert scene.health("leaf") == "ok"
    assert scene.audit("leaf") == []
    scene.booted(1)


def test_the_audit_names_who_was_not_heard_and_a_repair_waits_for_them(scene: Scene) -> None:
    scene.booted(1)
    copy = scene.copy("region")
    scene.restore("region", copy)

    left = scene.repair("region")

    assert [(line["kind"], line["subject"], line["repaired"]) for line in left] == [
        ("neighbour_unheard", "child leaf", False),
        ("neighbour_unheard", "parent parent-root", False),
    ]
    assert scene.health("region") == "recovering"


def test_a_dry_run_says_what_the_end_of_a_recovery_would_do(scene: Scene) -> None:
    scene.booted(1)
    copy = scene.copy("leaf")
    scene.booted(1)
    scene.restore("leaf", copy)
    scene.work(1)

    shown = scene.repair("leaf", dry_run=True)
    again = scene.repair("leaf", dry_run=True)

    assert shown == again
    assert [line["kind"] for line in shown] == ["instance_unknown_here", "recovery_open"]
    assert scene.health("leaf") == "recovering"
    assert scene.repair("leaf") == shown
    assert scene.repair("leaf") == []


@pytest.mark.own_statements
def test_a_hold_that_was_confirmed_after_the_copy_is_no_hold_any_more(scene: Scene) -> None:
    """The parent's confirm was lost with the rows; the agent has what it led to."""
    made: list[Path] = []
    leaf = scene.tree.nodes["leaf"]
    before = Before(lambda: made.append(scene.copy("leaf")), times=1, path="/confirm")
    scene.tree.network.fault(leaf.url, before)
    scene.booted(1)
    running = scene.agents["leaf"].running

    scene.restore("leaf", made[0])
    held = sql(scene.tree.nodes["leaf"].zone, "select state from placements")
    scene.recovered("leaf")

    assert held == [("held",)]
    assert scene.agents["leaf"].running == running
    assert set(scene.servers().values()) == {"ACTIVE"}
    assert scene.claimed_vcpus("leaf") == 2
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("path", ["/zones/select", "/servers", "/confirm"])
def test_a_boot_under_way_at_the_copy_is_not_carried_on_a_second_time(scene: Scene, path: str) -> None:
    made: list[Path] = []
    before = Before(lambda: made.append(scene.copy("root")), times=1, method="POST", path=path)
    scene.tree.network.fault(scene.tree.nodes["region"].url, before)
    booted = scene.booted(3)
    deleted = set(sorted(booted)[:1])
    scene.delete(deleted)
    running = scene.agents["leaf"].running

    scene.restore("root", made[0])
    scene.recovered("root")

    assert scene.agents["leaf"].running == running
    assert len(scene.agents["leaf"].driver.spawned) == 3
    left = {uuid: "ERROR" if uuid in deleted else "ACTIVE" for uuid in booted}
    assert scene.servers() == left
    nothing_is_wrong(scene.tree)


def test_what_a_root_forgot_is_adopted_with_the_request_that_its_child_gives_back(scene: Scene) -> None:
    old = scene.booted(1)
    copy = scene.copy("root")
    new = scene.booted(2)
    running = scene.agents["leaf"].running
    before = [
        scene.tree.nodes["root"].client().get(f"/servers/{uuid}").json["server"] for uuid in sorted(new)
    ]

    scene.restore("root", copy)
    scene.recovered("root")

    assert scene.agents["leaf"].running == running
    assert scene.servers() == dict.fromkeys(old | new, "ACTIVE")
    after = [scene.tree.nodes["root"].client().get(f"/servers/{uuid}").json["server"] for uuid in sorted(new)]
    same = ("tenant_id", "flavor", "image", "reservation_id")
    assert [[one[name] for name in same] for one in after] == [[one[name] for name in same] for one in before]
    nothing_is_wrong(scene.tree)
    scene.delete(new)
    assert scene.agents["leaf"].uuids() == old


def test_a_page_of_a_proxy_is_no_answer_about_what_a_root_forgot(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    # given a proxy before the child that does not know one of the URLs yet
    copy = scene.copy("root")
    new = scene.booted(2)
    url = scene.tree.nodes["region"].url
    page = Replace(path="/request", status=404, body=b"<html>Not Found</html>")
    scene.tree.network.fault(url, page)
    scene.restore("root", copy)

    # when
    scene.work(2)
    waiting = {line["kind"] for line in scene.audit("root")}
    scene.tree.network.heal(url)
    scene.recovered("root")

    # then the recovery has waited for the child, and said so
    assert waiting == {"neighbour_unheard"}
    assert "child zone region does not say what it has" in caplog.text
    assert scene.servers() == dict.fromkeys(new, "ACTIVE")
    nothing_is_wrong(scene.tree)


def test_a_child_that_is_removed_during_the_recovery_has_nothing_that_is_adopted(scene: Scene) -> None:
    # given a root without its boots, which has heard its child
    old = scene.booted(1)
    copy = scene.copy("root")
    scene.booted(2)
    scene.restore("root", copy)
    scene.work(1)
    # when its operator gives the child up, and ends the recovery
    (child,) = scene.admin("root").get("/zones").json["zones"]
    removed = scene.admin("root").delete(f"/zones/{child['id']}?force=true")
    scene.repair("root")
    scene.work()
    # then
    assert removed.status == 204, removed.body
    assert scene.servers() == dict.fromkeys(old, "ERROR")
    assert {line["subject"] for line in scene.audit("root")} == set()


def test_what_was_moved_after_the_copy_is_where_it_runs(scene: Scene) -> None:
    (uuid,) = scene.booted(1, "leaf")
    copy = scene.copy("leaf")
    leaf = scene.tree.nodes["leaf"].client()
    assert leaf.post(f"/servers/{uuid}/action", {"migrate": None}).status == 202
    scene.work(6)
    (key,) = scene.agents["leaf"].running
    assert key.attempt == 2

    scene.restore("leaf", copy)
    done = scene.recovered("leaf")

    assert "restored_instance_elsewhere" in {line["kind"] for line in done}
    assert scene.agents["leaf"].running == {key}
    assert scene.servers("leaf") == {uuid: "ACTIVE"}
    assert scene.claimed_vcpus("leaf") == 2
    nothing_is_wrong(scene.tree)


def test_what_was_resized_after_the_copy_keeps_the_room_that_it_takes(scene: Scene) -> None:
    # given a server that was resized since the copy
    leaf = scene.admin("leaf")
    leaf.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}})
    (uuid,) = scene.booted(1, "leaf")
    copy = scene.copy("leaf")
    for action in ({"resize": {"flavorRef": "large"}}, {"confirmResize": None}):
        assert leaf.post(f"/servers/{uuid}/action", action).status in (202, 204)
        scene.work(6)
    assert scene.claimed_vcpus("leaf") == 4
    # when
    scene.restore("leaf", copy)
    scene.recovered("leaf")
    # then
    assert scene.claimed_vcpus("leaf") == 4
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(("answer", "flavor"), [("confirmResize", "large"), ("revertResize", "small")])
def test_a_resize_that_waits_for_its_owner_still_does(scene: Scene, answer: str, flavor: str) -> None:
    # given a copy of the time when both places of a resized server are kept
    leaf = scene.admin("leaf")
    leaf.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}})
    (uuid,) = scene.booted(1, "leaf")
    resize = {"resize": {"flavorRef": "large"}}
    assert leaf.post(f"/servers/{uuid}/action", resize).status == 202
    scene.work(6)
    copy = scene.copy("leaf")
    # when
    scene.restore("leaf", copy)
    done = scene.recovered("leaf")
    leaf = scene.admin("leaf")
    hosts = leaf.get("/os-hypervisors/detail").json["hypervisors"]
    waiting = scene.servers("leaf")
    # then both are as they were, and its owner ends one of them
    assert {line["kind"] for line in done} == {"recovery_open"}
    assert {host["status"] for host in hosts} == {"enabled"}
    assert waiting == {uuid: "VERIFY_RESIZE"}
    assert leaf.post(f"/servers/{uuid}/action", {answer: None}).status in (202, 204)
    scene.work(6)
    server = leaf.get(f"/servers/{uuid}").json["server"]
    assert (server["status"], server["flavor"]["original_name"]) == ("ACTIVE", flavor)
    assert scene.claimed_vcpus("leaf") == server["flavor"]["vcpus"]
    assert len(scene.agents["leaf"].running) == 1
    nothing_is_wrong(scene.tree)


def test_a_revert_of_a_resize_that_the_copy_has_begun_is_done(scene: Scene) -> None:
    # given a copy of the time when a server is to return to its old place, and is at the new one
    leaf = scene.admin("leaf")
    leaf.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}})
    (uuid,) = scene.booted(1, "leaf")
    assert leaf.post(f"/servers/{uuid}/action", {"resize": {"flavorRef": "large"}}).status == 202
    scene.work(6)
    assert leaf.post(f"/servers/{uuid}/action", {"revertResize": None}).status == 202
    copy = scene.copy("leaf")
    # when
    scene.restore("leaf", copy)
    done = scene.recovered("leaf")
    scene.work(6)
    # then
    server = scene.admin("leaf").get(f"/servers/{uuid}").json["server"]
    assert {line["kind"] for line in done} <= {"recovery_open", "move_overdue"}
    assert (server["status"], server["flavor"]["original_name"]) == ("ACTIVE", "small")
    assert {key.attempt for key in scene.agents["leaf"].running} == {1}
    assert scene.claimed_vcpus("leaf") == 2
    nothing_is_wrong(scene.tree)


RESIZE = {"resize": {"flavorRef": "large"}}
MIGRATE = {"migrate": None}
CONFIRM: dict[str, Any] = {"confirmResize": None}
REVERT: dict[str, Any] = {"revertResize": None}


@pytest.mark.parametrize(("answer", "attempt", "flavor"), [(CONFIRM, 2, "large"), (REVERT, 1, "small")])
def test_a_resize_under_way_at_the_copy_that_is_built_since_waits_for_its_owner(
    scene: Scene, answer: dict[str, Any], attempt: int, flavor: str
) -> None:
    # given a copy of the time when the old host is to stop the server, which both hosts have since
    leaf = scene.admin("leaf")
    leaf.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}})
    (uuid,) = scene.booted(1, "leaf")
    assert leaf.post(f"/servers/{uuid}/action", RESIZE).status == 202
    scene.tree.settle()
    copy = scene.copy("leaf")
    scene.work(6)
    assert scene.servers("leaf") == {uuid: "VERIFY_RESIZE"}
    # when
    scene.restore("leaf", copy)
    done = scene.recovered("leaf")
    scene.work(6)
    # then it still does, and its hosts take servers as before
    leaf = scene.admin("leaf")
    hosts = leaf.get("/os-hypervisors/detail").json["hypervisors"]
    assert {line["kind"] for line in done} == {"recovery_open", "restored_instance_elsewhere"}
    assert {host["status"] for host in hosts} == {"enabled"}
    assert scene.servers("leaf") == {uuid: "VERIFY_RESIZE"}
    assert leaf.post(f"/servers/{uuid}/action", answer).status in (202, 204)
    scene.work(6)
    server = leaf.get(f"/servers/{uuid}").json["server"]
    assert (server["status"], server["flavor"]["original_name"]) == ("ACTIVE", flavor)
    assert {key.attempt for key in scene.agents["leaf"].running} == {attempt}
    assert scene.claimed_vcpus("leaf") == server["flavor"]["vcpus"]
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("rounds", [0, 1], ids=["asked for", "begun"])
def test_a_migration_that_the_copy_has_begun_and_that_is_done_since_ends_well(
    scene: Scene, rounds: int
) -> None:
    leaf = scene.admin("leaf")
    (uuid,) = scene.booted(1, "leaf")
    assert leaf.post(f"/servers/{uuid}/action", MIGRATE).status == 202
    scene.tree.settle(rounds)
    copy = scene.copy("leaf")
    scene.work(6)
    # when
    scene.restore("leaf", copy)
    done = scene.recovered("leaf")
    # then
    leaf = scene.admin("leaf")
    server = leaf.get(f"/servers/{uuid}").json["server"]
    (migration,) = leaf.get("/os-migrations").json["migrations"]
    (action, _) = leaf.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    assert {line["kind"] for line in done} == {"recovery_open", "restored_instance_elsewhere"}
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "l2")
    assert (migration["status"], migration["dest_compute"]) == ("confirmed", "l2")
    assert (action["action"], action["result"]) == ("migrate", "done")
    assert {key.attempt for key in scene.agents["leaf"].running} == {2}
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("move", [MIGRATE, RESIZE], ids=["migrate", "resize"])
def test_a_server_that_a_later_move_builds_than_the_copy_has_is_not_shown_as_moving_once_it_is_built(
    scene: Scene, move: dict[str, Any]
) -> None:
    # given a copy with a move that has ended since, and a migration to a third place
    leaf, agent = scene.admin("leaf"), scene.agents["leaf"]
    leaf.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}})
    (uuid,) = scene.booted(1, "leaf")
    assert leaf.post(f"/servers/{uuid}/action", move).status == 202
    scene.tree.settle()
    copy = scene.copy("leaf")
    scene.work(6)
    if move is RESIZE:
        assert leaf.post(f"/servers/{uuid}/action", CONFIRM).status == 204
        scene.work(6)
    agent.builds(seconds=300.0)
    assert leaf.post(f"/servers/{uuid}/action", MIGRATE).status == 202
    scene.tree.settle()
    scene.work(2)
    # when
    scene.restore("leaf", copy)
    agent.builds()
    scene.recovered("leaf")
    scene.tree.clock.advance(300.0)
    scene.work(6)
    # then
    server = scene.admin("leaf").get(f"/servers/{uuid}").json["server"]
    assert (server["status"], server["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert {key.attempt for key in agent.running} == {3}
    assert scene.claimed_vcpus("leaf") == server["flavor"]["vcpus"]
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("has_begun", [True, False], ids=["begun at the copy", "lacking in the copy"])
@pytest.mark.parametrize("fails", [True, False], ids=["not built", "built"])
@pytest.mark.parametrize("move", [MIGRATE, RESIZE], ids=["migrate", "resize"])
def test_a_move_whose_new_place_is_being_built_goes_on_after_a_restore(
    scene: Scene, move: dict[str, Any], fails: bool, has_begun: bool
) -> None:
    # given a server that its old host has stopped, and that its new host is building
    leaf, agent = scene.admin("leaf"), scene.agents["leaf"]
    leaf.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}})
    (uuid,) = scene.booted(1, "leaf")
    agent.builds(seconds=300.0)
    copy = scene.copy("leaf")
    assert leaf.post(f"/servers/{uuid}/action", move).status == 202
    scene.tree.settle()
    copy = scene.copy("leaf") if has_begun else copy
    scene.work(1)
    # when
    scene.restore("leaf", copy)
    agent.builds(failure_rate=float(fails))
    done = scene.recovered("leaf")
    scene.tree.clock.advance(300.0)
    scene.work(6)
    # then it ends at one of the two, with nothing lost: what was stopped runs again if it must
    leaf = scene.admin("leaf")
    server = leaf.get(f"/servers/{uuid}").json["server"]
    hosts = leaf.get("/os-hypervisors/detail").json["hypervisors"]
    results = [
        action["result"]
        for action in leaf.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    ]
    is_resized = has_begun and move is RESIZE and not fails
    assert {line["kind"] for line in done} == {"recovery_open", "restored_instance_elsewhere"}
    assert {host["status"] for host in hosts} == {"enabled"}
    assert server["status"] == ("VERIFY_RESIZE" if is_resized else "ACTIVE")
    assert max(key.attempt for key in agent.running) == (1 if fails else 2)
    assert results == [*(["error" if fails else "done"] if has_begun else []), "done"]
    is_large = move is RESIZE and not fails
    assert scene.claimed_vcpus("leaf") == (6 if is_resized else 4 if is_large else 2)
    if is_resized:
        assert leaf.post(f"/servers/{uuid}/action", CONFIRM).status == 204
        scene.work(6)
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(
    ("before", "since", "flavor"),
    [((RESIZE,), REVERT, "small"), ((RESIZE, REVERT), None, "small"), ((), CONFIRM, "large")],
    ids=["reverted since", "returned since", "confirmed since it began"],
)
def test_a_resize_that_was_settled_after_the_copy_is_over(
    scene: Scene, before: Sequence[dict[str, Any]], since: dict[str, Any] | None, flavor: str
) -> None:
    # given a copy of the time when the owner had yet to decide, when a revert was accepted, or when it began
    leaf = scene.admin("leaf")
    leaf.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 4}})
    (uuid,) = scene.booted(1, "leaf")
    assert leaf.post(f"/servers/{uuid}/action", RESIZE).status == 202
    scene.tree.settle()
    if before:
        scene.work(6)
    for action in before[1:]:
        assert leaf.post(f"/servers/{uuid}/action", action).status == 202
    copy = scene.copy("leaf")
    scene.work(6)
    if since is not None:
        assert leaf.post(f"/servers/{uuid}/action", since).status in (202, 204)
        scene.work(6)
    running = scene.agents["leaf"].running
    # when
    scene.restore("leaf", copy)
    scene.recovered("leaf")
    scene.work(6)
    # then it is as it runs, and takes actions again
    leaf = scene.admin("leaf")
    server = leaf.get(f"/servers/{uuid}").json["server"]
    actions = leaf.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    assert (server["status"], server["flavor"]["original_name"]) == ("ACTIVE", flavor)
    assert scene.agents["leaf"].running == running
    assert scene.claimed_vcpus("leaf") == server["flavor"]["vcpus"]
    assert None not in {action["result"] for action in actions}
    assert leaf.post(f"/servers/{uuid}/action", {"os-stop": None}).status == 202
    scene.work(6)
    assert scene.servers("leaf") == {uuid: "SHUTOFF"}
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["region", "leaf"])
def test_a_shelve_that_the_copy_has_begun_is_not_done_again_at_a_later_place(scene: Scene, zone: str) -> None:
    # given a copy of the time when the zone was told to shelve a server, which was unshelved since
    (uuid,) = scene.booted(1)
    assert scene.admin("root").post(f"/servers/{uuid}/action", {"shelve": None}).status == 202
    scene.tree.settle()
    copy = scene.copy(zone)
    scene.work(6)
    scene.act(uuid, "unshelve")
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    scene.work(6)
    # then
    assert [scene.servers(name) for name in ZONES] == [{uuid: "ACTIVE"}] * 3
    nothing_is_wrong(scene.tree)
    scene.act(uuid, "os-stop")
    assert [scene.servers(name) for name in ZONES] == [{uuid: "SHUTOFF"}] * 3


@pytest.mark.parametrize("zone", ZONES)
def test_a_shelve_under_way_that_was_done_since_the_copy_is_done(scene: Scene, zone: str) -> None:
    (uuid,) = scene.booted(1)
    assert scene.admin("root").post(f"/servers/{uuid}/action", {"shelve": None}).status == 202
    scene.tree.settle()
    copy = scene.copy(zone)
    scene.work(6)

    scene.restore(zone, copy)
    scene.recovered(zone)
    scene.work(6)

    assert scene.servers() == {uuid: "SHELVED_OFFLOADED"}
    assert scene.claimed_vcpus("leaf") == 0
    nothing_is_wrong(scene.tree)
    scene.act(uuid, "unshelve")
    assert scene.servers() == {uuid: "ACTIVE"}
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(
    ("zone", "reason", "status"),
    [("root", "lost_in_restore", "SHELVED_OFFLOADED"), ("leaf", "deleted_in_child", "ERROR")],
)
def test_an_unshelve_under_way_that_is_found_nowhere_ends(
    scene: Scene, zone: str, reason: str, status: str
) -> None:
    # given a copy of the root of when an unshelve was accepted, or of the leaf before its agent heard of it
    (uuid,) = scene.booted(1)
    scene.act(uuid, "shelve")
    root = scene.admin("root")
    assert root.post(f"/servers/{uuid}/action", {"unshelve": None}).status == 202
    if zone == "leaf":
        scene.tree.settle()
    copy = scene.copy(zone)
    if zone == "root":
        scene.work(6)
        scene.act(uuid, "shelve")
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    scene.work(6)
    # then it rests, unless a child says no more than that it has deleted it
    root = scene.admin("root")
    action = root.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"][0]
    assert scene.servers() == {uuid: status}
    assert (action["action"], action["result"], action["error_code"]) == ("unshelve", "error", reason)
    assert scene.agents["leaf"].running == set()
    nothing_is_wrong(scene.tree)
    # and one that rests can be unshelved
    if status == "SHELVED_OFFLOADED":
        scene.act(uuid, "unshelve")
        assert scene.servers() == {uuid: "ACTIVE"}
        nothing_is_wrong(scene.tree)


def test_a_move_that_the_copy_lacks_is_over_for_the_parent_too(scene: Scene) -> None:
    # given a copy of the time before a move that has begun, as the parent has heard
    (uuid,) = scene.booted(1)
    copy = scene.copy("leaf")
    leaf = scene.admin("leaf")
    assert leaf.post(f"/servers/{uuid}/action", {"migrate": None}).status == 202
    scene.tree.settle()
    begun = scene.servers("root")
    # when
    scene.restore("leaf", copy)
    scene.recovered("leaf")
    # then
    assert begun == {uuid: "RESIZE"}
    assert [scene.servers(name) for name in ZONES] == [{uuid: "ACTIVE"}] * 3
    nothing_is_wrong(scene.tree)


def test_what_no_row_and_no_parent_has_runs_on_until_the_operator_ends_it(scene: Scene) -> None:
    copy = scene.copy("leaf")
    lost = scene.booted(1, "leaf")

    scene.restore("leaf", copy)
    done = scene.recovered("leaf")
    hosts = scene.tree.nodes["leaf"].client().get("/os-hypervisors/detail").json["hypervisors"]
    listed = scene.audit("leaf")

    assert scene.agents["leaf"].uuids() == lost
    assert [line["kind"] for line in done] == ["instance_unknown_here", "recovery_open"]
    assert [line["kind"] for line in listed] == ["instance_unknown_here"]
    assert sorted(host["status"] for host in hosts) == ["disabled", "enabled"]
    # and its operator reads whose agent has it, and which host takes no more
    (closed,) = (host["hypervisor_hostname"] for host in hosts if host["status"] == "disabled")
    (uuid,) = lost
    assert listed[0]["subject"] == f"instance {uuid} place 1 at agent agent on host {closed}"
    scene.repair("leaf", delete_unknown=True)
    scene.work()
    assert scene.agents["leaf"].uuids() == set()
    assert scene.audit("leaf") == []


def test_what_an_agent_that_tells_anew_has_no_more_is_no_longer_listed(scene: Scene) -> None:
    # given an instance that no row has, as its agent has told
    copy = scene.copy("leaf")
    scene.booted(1, "leaf")
    scene.restore("leaf", copy)
    scene.work(1)
    assert scene.kinds("leaf") == {"instance_unknown_here", "recovery_open"}
    # when the agent's machine has lost it, and another agent tells in its place
    machines = [a_machine(name) for name in ("l1", "l2")]
    scene.agents["leaf"] = RealAgent(scene.tree, "leaf", machines)
    # then the recovery ends without it, and without a word on its host
    assert scene.kinds("leaf") == {"recovery_open"}
    scene.recovered("leaf")
    assert scene.audit("leaf") == []
    hosts = scene.admin("leaf").get("/os-hypervisors/detail").json["hypervisors"]
    assert [host["status"] for host in hosts] == ["enabled", "enabled"]


def test_an_entry_from_before_the_restore_builds_nothing_after_it(scene: Scene) -> None:
    """The copy has forgotten that it was used, and its time is not over."""
    copy, began_at = scene.copy("leaf"), scene.tree.clock.now()
    scene.boot(1)
    scene.tree.settle()
    (sent,) = scene.sent_builds("leaf")
    asked = json.loads(sent.body)
    asked["server"]["reservation_id"] = asked["server"]["builds"][0]["uuid"] = ANOTHER
    scene.restore("leaf", copy)
    scene.agents["leaf"].work()
    scene.tree.poll(2)
    scene.repair("leaf")

    assert scene.health("leaf") == "ok"
    assert scene.tree.clock.now() < began_at + 300
    refused = scene.tree.nodes["leaf"].client("parent-region").post("/servers", asked)

    assert (refused.status, refused.json["badRequest"]["error_code"]) == (400, "blob_refused")


@pytest.mark.slow
def test_a_whole_tree_that_is_restored_recovers_from_below(scene: Scene) -> None:
    old = scene.booted(2)
    kept = {name: scene.copy(name) for name in ZONES}
    new = scene.booted(2)

    for name in ZONES:
        scene.restore(name, kept[name])
    scene.work(1)
    for name in reversed(ZONES):
        scene.recovered(name)

    assert scene.servers() == dict.fromkeys(old, "ACTIVE")
    assert set(scene.servers("region")) == old
    assert scene.agents["leaf"].uuids() == old | new
    for uuid in new:
        assert any(uuid in line["subject"] for line in scene.audit("leaf"))
    scene.repair("leaf", delete_unknown=True)
    scene.work()
    assert scene.agents["leaf"].uuids() == old
    assert scene.claimed_vcpus("leaf") == 4
    nothing_is_wrong(scene.tree)


def test_an_agent_that_was_away_tells_what_it_has_before_it_ends_anything(scene: Scene) -> None:
    """Its hosts are not in the copy: the recovery did not wait for it."""
    copy = scene.copy("leaf")
    scene.agents["late"] = RealAgent(scene.tree, "leaf", [a_machine("l3", vcpus=64)], "late")
    scene.work(1)
    lost = scene.booted(1, "leaf")
    late = scene.agents.pop("late")
    assert late.uuids() == lost

    scene.restore("leaf", copy)
    scene.recovered("leaf")
    late.work()
    late.work()

    assert late.uuids() == lost
    assert {line["kind"] for line in scene.audit("leaf")} == {"instance_unknown_here"}
