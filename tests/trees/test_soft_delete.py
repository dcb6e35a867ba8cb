"""Deletes that their owners may take back: `reclaim_instance_interval`, over HTTP, with played agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.moving import act, add_host, booted, code, last, shown
from tests.builders.one_zone import sql
from tests.builders.played_agent import PlayedAgent
from tests.builders.restored import Scene, a_scene
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.services.owners import reclaims
from zonesched.services.owners.reclaims import Reclaims
from zonesched.store import soft_deleted

pytestmark = pytest.mark.same_statements

INTERVAL_S = 600.0
LARGE = {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 3}}
HUGE = {"flavor": {**FLAVOR["flavor"], "id": "huge", "name": "huge", "vcpus": 99}}
STOP, RESTORE, FORCE = {"os-stop": None}, {"restore": None}, {"forceDelete": None}
HARD = {"reboot": {"type": "HARD"}}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=16)], reclaim_instance_interval=INTERVAL_S)
    for flavor in (FLAVOR, LARGE, HUGE):
        node.client().post("/flavors", flavor)
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["leaf"]


@pytest.fixture
def agent(node: Node) -> PlayedAgent:
    return PlayedAgent(node)


def go_on(tree: Tree, *agents: PlayedAgent) -> None:
    for _ in range(2):
        tree.settle()
        for agent in agents:
            agent.converge()
    tree.settle()


def pass_time(tree: Tree, seconds: float, *agents: PlayedAgent) -> None:
    tree.clock.advance(seconds)
    tree.beat()
    go_on(tree, *agents)


def delete(node: Node, uuid: str, user: str = "member") -> int:
    return node.client(user).delete(f"/servers/{uuid}").status


def listed(node: Node, query: str = "", user: str = "member") -> list[str]:
    found = node.client(user).get(f"/servers{query}").json["servers"]
    return [one["id"] for one in found]


def states_of(node: Node, uuid: str) -> tuple[str, str, str | None, int]:
    """Status, and OpenStack's states of a server."""
    found = node.client("member").get(f"/servers/{uuid}").json["server"]
    names = ("vm_state", "task_state", "power_state")
    return (found["status"], *(found[f"OS-EXT-STS:{name}"] for name in names))


def is_gone(node: Node, uuid: str) -> bool:
    return node.client("member").get(f"/servers/{uuid}").status == 404


def used(node: Node) -> int:
    found = node.client().get("/os-hypervisors/detail").json["hypervisors"]
    return sum(int(one["vcpus_used"]) for one in found)


def history(node: Node, uuid: str) -> list[tuple[str, str | None]]:
    lines = node.client("member").get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    return [(line["action"], line["result"]) for line in reversed(lines)]


def test_a_deleted_server_is_stopped_and_in_no_list_until_its_owner_restores_it(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    # given
    uuid, other = booted(tree, agent), booted(tree, agent)
    # when
    assert delete(node, uuid) == 204
    stopping = states_of(node, uuid)
    go_on(tree, agent)
    # then
    assert stopping == ("SOFT_DELETED", "soft-delete", "soft-deleting", 1)
    assert states_of(node, uuid) == ("SOFT_DELETED", "soft-delete", None, 4)
    assert (agent.power[uuid], used(node)) == ("stopped", 4)
    assert listed(node) == listed(node, "?status=ACTIVE") == [other]
    assert listed(node, "?vm_state=soft-delete") == []
    assert listed(node, "?status=SHUTOFF") == []
    for query in ("?status=soft_deleted", "?changes-since=2000-01-01T00:00:00Z&vm_state=soft-delete"):
        assert listed(node, query) == [uuid], query
    assert listed(node, "?deleted=true&all_tenants=true", "admin") == [uuid]
    # and
    assert act(node, uuid, RESTORE, "member").status == 202
    go_on(tree, agent)
    assert states_of(node, uuid) == ("ACTIVE", "active", None, 1)
    assert sorted(listed(node)) == sorted([uuid, other])
    assert history(node, uuid) == [("create", "done"), ("delete", "done"), ("restore", "done")]
    pass_time(tree, INTERVAL_S + 60, agent)
    assert states_of(node, uuid)[0] == "ACTIVE"
    nothing_is_wrong(tree)


def test_a_deleted_server_is_deleted_for_good_once_its_time_is_over(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    uuid, other = booted(tree, agent), booted(tree, agent)
    delete(node, uuid)
    go_on(tree, agent)

    pass_time(tree, INTERVAL_S - 1, agent)
    before = states_of(node, uuid)[0]
    pass_time(tree, 2, agent)

    assert before == "SOFT_DELETED"
    assert is_gone(node, uuid)
    assert (listed(node), used(node), agent.running) == ([other], 2, {(other, 1)})
    names = sql(
        node.zone, "select action, result from instance_actions where uuid = :u order by number", u=uuid
    )
    assert [tuple(row) for row in names] == [("create", "done"), ("delete", "done"), ("delete", "done")]
    nothing_is_wrong(tree)


def test_a_boot_is_deleted_as_long_as_all_its_servers_are(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    uuid = booted(tree, agent)
    delete(node, uuid)
    go_on(tree, agent)

    def state() -> tuple[str, dict[str, int]]:
        (boot,) = node.client("member").get("/reservations").json["reservations"]
        found = node.client("member").get(f"/reservations/{boot['id']}").json["reservation"]
        assert (found["state"], found["counts"]) == (boot["state"], boot["counts"])
        return found["state"], found["counts"]

    deleted = state()
    act(node, uuid, RESTORE, "member")
    go_on(tree, agent)

    assert deleted == ("DELETED", {"SOFT_DELETED": 1})
    assert state() == ("ACTIVE", {"ACTIVE": 1})


def test_an_action_on_a_boot_leaves_out_what_its_owner_has_deleted(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    # given
    boot = {"name": "vm", "flavorRef": "small", "min_count": 3, "return_reservation_id": True}
    made = node.client("member").post("/servers", {"server": boot})
    path = f"/reservations/{made.json['reservation_id']}/action"
    go_on(tree, agent)
    deleted, *others = sorted(listed(node))
    delete(node, deleted)
    go_on(tree, agent)
    # when
    stopped = node.client("member").post(path, STOP).json
    go_on(tree, agent)
    statuses = {uuid: states_of(node, uuid)[0] for uuid in (deleted, *others)}
    restored = node.client("member").post(path, RESTORE).json
    go_on(tree, agent)
    # then
    assert stopped == {"accepted": 2, "refused": []}
    assert statuses == {deleted: "SOFT_DELETED", **dict.fromkeys(others, "SHUTOFF")}
    assert (restored["accepted"], sorted(one["uuid"] for one in restored["refused"])) == (1, others)
    assert states_of(node, deleted)[0] == "ACTIVE"


def test_a_repeated_delete_changes_nothing(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    uuid = booted(tree, agent)
    delete(node, uuid)
    go_on(tree, agent)
    pass_time(tree, INTERVAL_S - 10, agent)

    again = delete(node, uuid)
    actions = history(node, uuid)
    pass_time(tree, 11, agent)

    assert (again, actions) == (204, [("create", "done"), ("delete", "done")])
    assert is_gone(node, uuid)


def test_a_forced_delete_is_final(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    kept, at_once = booted(tree, agent), booted(tree, agent)
    delete(node, kept)
    go_on(tree, agent)

    replies = [act(node, uuid, FORCE, "member").status for uuid in (kept, at_once)]
    go_on(tree, agent)

    assert replies == [202, 202]
    assert (is_gone(node, kept), is_gone(node, at_once), used(node)) == (True, True, 0)
    nothing_is_wrong(tree)


@pytest.mark.parametrize(
    ("before", "power"), [("os-stop", "stopped"), ("pause", "paused"), ("suspend", "suspended")]
)
def test_a_server_that_does_not_run_is_deleted_in_the_same_way(
    tree: Tree, node: Node, agent: PlayedAgent, before: str, power: str
) -> None:
    uuid = booted(tree, agent)
    act(node, uuid, {before: None}, "member")
    go_on(tree, agent)
    assert agent.power[uuid] == power

    delete(node, uuid)
    go_on(tree, agent)
    deleted = states_of(node, uuid), agent.power[uuid]
    act(node, uuid, RESTORE, "member")
    go_on(tree, agent)

    assert deleted == (("SOFT_DELETED", "soft-delete", None, 4), "stopped")
    assert states_of(node, uuid) == ("ACTIVE", "active", None, 1)


def test_a_deleted_server_takes_no_other_action(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    uuid, running = booted(tree, agent), booted(tree, agent)
    delete(node, uuid)
    go_on(tree, agent)

    bodies: Sequence[Any] = (
        {"os-start": None},
        STOP,
        HARD,
        {"shelve": None},
        {"resize": {"flavorRef": "large"}},
        {"pause": None},
    )
    assert {code(act(node, uuid, body, "member")) for body in bodies} == {(409, "wrong_status")}
    reply = act(node, running, RESTORE, "member")
    assert code(reply) == (409, "wrong_status")
    ((fault,),) = [reply.json.values()]
    assert fault["message"] == "restore: the server's status is ACTIVE, accepted: SOFT_DELETED."
    assert history(node, uuid) == [("create", "done"), ("delete", "done")]


def test_a_locked_server_is_neither_deleted_nor_restored_by_its_owner(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    uuid, deleted = booted(tree, agent), booted(tree, agent)
    delete(node, deleted)
    go_on(tree, agent)
    for one in (uuid, deleted):
        act(node, one, {"lock": None})

    assert delete(node, uuid) == 409
    assert code(act(node, deleted, RESTORE, "member")) == (409, "server_locked")
    assert states_of(node, uuid)[0] == "ACTIVE"
    # and its time goes on
    pass_time(tree, INTERVAL_S + 1, agent)
    assert is_gone(node, deleted)


def test_a_server_without_anything_to_keep_is_deleted_at_once(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    # given one that is being built, one that failed, one that is shelved and one that is resized
    shelved, resized = booted(tree, agent), booted(tree, agent)
    act(node, shelved, {"shelve": None}, "member")
    assert act(node, resized, {"resize": {"flavorRef": "large"}}, "member").status == 202
    go_on(tree, agent)
    go_on(tree, agent)
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    building = str(node.client("member").post("/servers", body).json["server"]["id"])
    huge = {"server": {"name": "vm", "flavorRef": "huge"}}
    failed = str(node.client("member").post("/servers", huge).json["server"]["id"])
    tree.settle()
    every = [shelved, resized, building, failed]
    before = [shown(node, uuid)[0] for uuid in every]
    # when
    replies = [delete(node, uuid) for uuid in every]
    go_on(tree, agent)
    # then
    assert before == ["SHELVED_OFFLOADED", "VERIFY_RESIZE", "BUILD", "ERROR"]
    assert replies == [204] * 4
    assert all(is_gone(node, uuid) for uuid in every)
    nothing_is_wrong(tree)


def test_a_server_that_its_driver_cannot_stop_is_not_deleted(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    uuid = booted(tree, agent)
    agent.refuses["stopped"] = "stop_failed"

    delete(node, uuid)
    go_on(tree, agent)
    pass_time(tree, INTERVAL_S + 1, agent)

    assert states_of(node, uuid) == ("ACTIVE", "active", None, 1)
    assert last(node, uuid) == ("delete", "error", "stop_failed")
    assert listed(node) == [uuid]


def test_a_restore_before_the_stop_leaves_the_server_as_it_was(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    uuid = booted(tree, agent)

    delete(node, uuid)
    assert act(node, uuid, RESTORE, "member").status == 202
    go_on(tree, agent)

    assert states_of(node, uuid) == ("ACTIVE", "active", None, 1)
    assert history(node, uuid) == [("create", "done"), ("delete", "superseded"), ("restore", "done")]


def test_a_server_that_is_restored_at_the_last_moment_stays(
    tree: Tree, node: Node, agent: PlayedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a look at what is due, after which its owner restores it
    uuid = booted(tree, agent)
    delete(node, uuid)
    go_on(tree, agent)
    tree.clock.advance(INTERVAL_S + 1)
    due = node.zone.store.read(lambda tx: soft_deleted.due(tx, node.zone.clock.now(), 9, 0))
    monkeypatch.setattr(soft_deleted, "due", lambda tx, *args: due)
    assert act(node, uuid, RESTORE, "member").status == 202
    # when
    Reclaims(node.zone).step()
    # then
    monkeypatch.undo()
    tree.beat()
    go_on(tree, agent)
    assert due == [uuid]
    assert states_of(node, uuid)[0] == "ACTIVE"


def test_what_cannot_be_reclaimed_holds_up_no_other(
    tree: Tree,
    node: Node,
    agent: PlayedAgent,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given the first that is due, whose rows cannot be read
    first, second, third = (booted(tree, agent) for _ in range(3))
    for uuid in (first, second, third):
        delete(node, uuid)
        go_on(tree, agent)
        tree.clock.advance(1)
    sql(node.zone, "update placements set state = 'broken' where uuid = :u", u=first)
    monkeypatch.setattr(reclaims, "BATCH", 1)
    # when
    tree.clock.advance(INTERVAL_S + 1)
    reclaiming = Reclaims(node.zone)
    done = [(reclaiming.step(), is_gone(node, second), is_gone(node, third)) for _ in range(4)]
    # then each step deletes a batch, so that a process which is to end does not go on with all of them
    assert done == [
        (0.0, False, False),
        (0.0, True, False),
        (0.0, True, True),
        (reclaims.PAUSE_S, True, True),
    ]
    assert caplog.text.count(f"the server {first} is not reclaimed") == 1


def test_what_was_deleted_while_the_option_was_set_can_be_restored_until_its_time(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    first, second = booted(tree, agent), booted(tree, agent)
    for uuid in (first, second):
        delete(node, uuid)
    go_on(tree, agent)
    node.zone.conf.set_override("reclaim_instance_interval", 0.0)

    pass_time(tree, INTERVAL_S - 5, agent)
    restored = act(node, first, RESTORE, "member").status
    pass_time(tree, 6, agent)
    final = booted(tree, agent)
    delete(node, final)

    assert restored == 202
    assert states_of(node, first)[0] == "ACTIVE"
    assert is_gone(node, second)
    assert is_gone(node, final)


def test_a_deleted_server_whose_host_is_evacuated_is_not_placed_anew(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    # given
    uuid = booted(tree, agent)
    other = booted(tree, agent)
    delete(node, uuid)
    go_on(tree, agent)
    add_host(node, "h2", vcpus=4)
    elsewhere = PlayedAgent(node, service="agent-2")
    services = node.client().get("/os-services?binary=nova-compute").json["services"]
    (old,) = [one["id"] for one in services if one["host"] == "h1"]
    node.client().call("PUT", f"/os-services/{old}", {"forced_down": True})
    # when
    answer = node.client().post(f"/os-services/{old}/action", {"evacuate": {"fenced": True}})
    go_on(tree, elsewhere)
    # then nothing of it is left, which an owner could restore
    assert answer.json == {"evacuated": 2, "moving": 0}
    assert states_of(node, uuid)[:3] == ("SOFT_DELETED", "soft-delete", None)
    assert (shown(node, other)[0], shown(node, other)[2]) == ("ACTIVE", "h2")
    assert listed(node) == [other]
    assert code(act(node, uuid, RESTORE, "member")) == (409, "not_built")
    pass_time(tree, INTERVAL_S + 1, agent, elsewhere)
    assert is_gone(node, uuid)
    nothing_is_wrong(tree)


def test_an_admin_moves_a_deleted_server_to_another_host(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    uuid = booted(tree, agent)
    delete(node, uuid)
    go_on(tree, agent)
    add_host(node, "h2", vcpus=4)
    elsewhere = PlayedAgent(node, service="agent-2")

    assert act(node, uuid, {"migrate": None}).status == 202
    moving = states_of(node, uuid)
    refused = [code(act(node, uuid, body)) for body in (RESTORE, {"migrate": None})]
    for _ in range(3):
        go_on(tree, agent, elsewhere)
    moved = states_of(node, uuid), shown(node, uuid)[2]
    act(node, uuid, RESTORE, "member")
    go_on(tree, agent, elsewhere)

    assert (moving[0], moving[2]) == ("SOFT_DELETED", "resize_migrating")
    assert refused == [(409, "action_under_way")] * 2
    assert moved == (("SOFT_DELETED", "soft-delete", None, 4), "h2")
    assert states_of(node, uuid)[0] == "ACTIVE"
    assert [name for name, _ in agent.running | elsewhere.running] == [uuid]
    nothing_is_wrong(tree)


def test_a_server_with_many_open_actions_is_deleted(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    uuid = booted(tree, agent)
    for number in range(20):
        body = {"os-start": None} if number % 2 else STOP
        assert act(node, uuid, body, "member").status == 202

    assert delete(node, uuid) == 204
    go_on(tree, agent)

    assert states_of(node, uuid)[0] == "SOFT_DELETED"


@built_once
def three_levels(folder: Path) -> Tree:
    tree = Tree(folder)
    root = tree.add("root", reclaim_instance_interval=INTERVAL_S)
    tree.add("region", parent="root")
    tree.add("leaf", parent="region", hosts_=[a_host("h1", vcpus=8)], reclaim_instance_interval=5.0)
    tree.poll(2)
    root.client().post("/flavors", FLAVOR)
    return tree


def test_the_zone_of_the_owner_alone_knows_of_a_delete_that_may_be_taken_back(tmp_path: Path) -> None:
    # given
    tree = three_levels(tmp_path)
    root, region, leaf = (tree.nodes[name] for name in ("root", "region", "leaf"))
    agent = PlayedAgent(leaf)
    uuid, other = (booted(tree, agent, "root") for _ in range(2))
    # when
    delete(root, uuid)
    go_on(tree, agent)
    tree.poll(2)
    pass_time(tree, 60.0, agent)
    tree.poll(2)
    # then
    assert states_of(root, uuid) == ("SOFT_DELETED", "soft-delete", None, 4)
    below = [node.client().get("/servers/detail?all_tenants=true").json["servers"] for node in (region, leaf)]
    assert [sorted(one["status"] for one in found) for found in below] == [["ACTIVE", "SHUTOFF"]] * 2
    # and
    act(root, uuid, RESTORE, "member")
    go_on(tree, agent)
    tree.poll(2)
    restored = states_of(root, uuid)
    delete(root, uuid)
    pass_time(tree, INTERVAL_S + 1, agent)
    tree.poll(2)
    go_on(tree, agent)
    assert restored == ("ACTIVE", "active", None, 1)
    assert (is_gone(root, uuid), listed(root), agent.running) == (True, [other], {(other, 1)})
    nothing_is_wrong(tree)


def running(tree: Tree, agent: PlayedAgent) -> str:
    """A server of the root that runs in the leaf, as the root knows."""
    uuid = booted(tree, agent, "root")
    for _ in range(2):
        tree.poll(2)
        go_on(tree, agent)
    assert states_of(tree.nodes["root"], uuid)[0] == "ACTIVE"
    return uuid


def test_a_zone_that_passes_no_calls_on_any_more_deletes_what_is_due(tmp_path: Path) -> None:
    # given
    tree = three_levels(tmp_path)
    root, agent = tree.nodes["root"], PlayedAgent(tree.nodes["leaf"])
    uuid = running(tree, agent)
    delete(root, uuid)
    go_on(tree, agent)
    # when
    root.zone.conf.set_override("enable_zone_routing", False)
    pass_time(tree, INTERVAL_S + 1, agent)
    go_on(tree, agent)
    # then
    assert (is_gone(root, uuid), agent.running) == (True, set())
    nothing_is_wrong(tree)


def test_a_delete_by_the_admin_below_is_final(tmp_path: Path) -> None:
    tree = three_levels(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    agent = PlayedAgent(leaf)
    uuid = booted(tree, agent, "root")
    (below,) = leaf.client().get("/servers?all_tenants=true").json["servers"]

    assert delete(leaf, below["id"], "admin") == 204
    go_on(tree, agent)
    tree.poll(2)
    go_on(tree, agent)

    assert shown(root, uuid)[0] == "ERROR"
    assert used(leaf) == 0


@pytest.mark.parametrize("how", ["deleted_below", "child_removed"])
def test_a_deleted_server_that_is_lost_does_not_come_back_to_its_owner(tmp_path: Path, how: str) -> None:
    # given
    tree = three_levels(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    agent = PlayedAgent(leaf)
    uuid, lost = running(tree, agent), running(tree, agent)
    delete(root, uuid)
    go_on(tree, agent)
    # when
    if how == "deleted_below":
        for below in leaf.client().get("/servers?all_tenants=true").json["servers"]:
            assert delete(leaf, below["id"], "admin") == 204
    else:
        (child,) = root.client().get("/zones").json["zones"]
        assert root.client().delete(f"/zones/{child['id']}?force=true").status == 204
    for _ in range(2):
        go_on(tree, agent)
        tree.poll(2)
    # then
    assert states_of(root, uuid) == ("SOFT_DELETED", "soft-delete", None, 0)
    assert listed(root) == listed(root, "?status=ERROR") == [lost]
    assert listed(root, "?status=SOFT_DELETED") == listed(root, "?deleted=true") == [uuid]
    refused = [act(root, uuid, body) for body in (RESTORE, {"migrate": None}, {"os-start": None})]
    assert [code(reply) for reply in refused] == [(409, "not_built")] * 2 + [(409, "wrong_status")]
    assert delete(root, uuid) == 204
    # and
    pass_time(tree, INTERVAL_S + 1, agent)
    assert (is_gone(root, uuid), listed(root)) == (True, [lost])


@pytest.mark.parametrize("zone", ["root", "leaf"])
def test_a_restored_copy_deletes_no_server_that_was_restored_since(tmp_path: Path, zone: str) -> None:
    # given the copy of a zone, in which a server is deleted, that is restored after the copy was made
    scene: Scene = a_scene(tmp_path)
    node = scene.tree.nodes[zone]
    node.zone.conf.set_override("reclaim_instance_interval", INTERVAL_S)
    (uuid,) = scene.booted(zone=zone)
    scene.delete({uuid}, zone)
    copy = scene.copy(zone)
    assert act(node, uuid, RESTORE).status == 202
    scene.work(6)
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    scene.tree.clock.advance(INTERVAL_S + 1)
    scene.work(6)
    # then
    assert scene.servers(zone) == {uuid: "ACTIVE"}
