"""Cold migration inside one zone: over HTTP, with agents played by their own calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.migrated import ask
from tests.builders.moving import act, add_host, booted, code, last, on_h1, shown, states
from tests.builders.one_zone import places_of
from tests.builders.played_agent import PlayedAgent, a_report
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.model.placement import PlacementState
from zonesched.services.audit import audit, repair
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.hosts import hosts

MIGRATE = {"migrate": None}
BUILD_S, OVERDUE_S = 900.0, 901.0


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=4)])
    node.client().post("/flavors", FLAVOR)
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["leaf"]


@pytest.fixture
def old(node: Node) -> PlayedAgent:
    return PlayedAgent(node)


@pytest.fixture
def new(node: Node) -> PlayedAgent:
    """The agent of a second host, which has no room until a test registers it."""
    return PlayedAgent(node, service="agent-2")


def test_a_server_moves_step_by_step_and_both_places_are_claimed_meanwhile(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)

    reply = act(node, uuid, MIGRATE)
    accepted = shown(node, uuid), states(node, uuid)
    tree.settle(1)
    held = shown(node, uuid), states(node, uuid)
    new_work = new.work()
    old.converge()
    switched = shown(node, uuid), states(node, uuid)
    new.converge()
    arrived = shown(node, uuid), states(node, uuid)
    old.converge()

    assert (reply.status, reply.body) == (202, b"")
    assert accepted == (("RESIZE", "resize_migrating", "h1"), ["confirmed"])
    assert held == (("RESIZE", "resize_migrating", "h1"), ["confirmed", "held"])
    assert new_work == []
    assert switched == (("RESIZE", "resize_migrating", "h2"), ["parked", "confirmed"])
    assert arrived == (("ACTIVE", None, "h2"), ["releasing", "confirmed"])
    assert states(node, uuid) == ["released", "confirmed"]
    assert last(node, uuid) == ("migrate", "done", "")
    assert (old.running, new.running) == (set(), {(uuid, 2)})
    nothing_is_wrong(tree)


def test_a_report_that_one_call_has_twice_takes_one_step(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)

    left = {"uuid": uuid, "attempt": 1, "state": "left", "left_for": 2, "reason": ""}
    old.report([left, left])
    switched = shown(node, uuid), states(node, uuid)
    (line,) = new.work()
    built = a_report(line, line["desired"]["generation"], "running")
    new.report([built, built])
    new.converge()
    old.converge()

    assert switched == (("RESIZE", "resize_migrating", "h2"), ["parked", "confirmed"])
    assert states(node, uuid) == ["released", "confirmed"]
    assert last(node, uuid) == ("migrate", "done", "")
    nothing_is_wrong(tree)


def test_the_new_host_gets_it_as_it_was_and_can_be_left_again(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, {"os-stop": None})
    old.converge()

    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    (line,) = new.work()
    new.converge()
    stopped = shown(node, uuid)
    started = act(node, uuid, {"os-start": None}).status
    new.converge()
    old.converge()
    act(node, uuid, {"migrate": {"host": "h1"}})
    tree.settle(1)
    for agent in (new, old, new):
        agent.converge()

    assert (line["status"], line["moved_from"], line["desired"]["power"]) == ("BUILD", 1, "stopped")
    assert stopped == ("SHUTOFF", None, "h2")
    assert (started, shown(node, uuid)) == (202, ("ACTIVE", None, "h1"))
    assert states(node, uuid) == ["released", "released", "confirmed"]
    nothing_is_wrong(tree)


def test_while_it_moves_nothing_else_is_taken_but_a_delete(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)

    replies = [code(act(node, uuid, body)) for body in (MIGRATE, {"os-stop": None}, {"pause": None})]
    deleted = node.client("member").delete(f"/servers/{uuid}").status
    old.converge()
    new.converge()

    assert replies == [(409, "wrong_status")] * 3
    assert deleted == 204
    assert states(node, uuid) == ["released", "gone"]
    assert last(node, uuid) == ("delete", "done", "")
    assert (old.running, new.running) == (set(), set())
    nothing_is_wrong(tree)


@pytest.mark.parametrize("steps", range(4))
def test_a_delete_in_any_state_of_a_move_ends_it_at_no_place(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent, steps: int
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    new.cannot_build = "build_failed"
    for step in [lambda: tree.settle(1), old.converge, new.converge][:steps]:
        step()

    node.client("member").delete(f"/servers/{uuid}")
    for _ in range(2):
        tree.settle(1)
        old.converge()
        new.converge()

    assert set(states(node, uuid)) <= {"released", "gone"}
    assert (old.running, new.running) == (set(), set())
    nothing_is_wrong(tree)


def test_without_room_it_stays_and_the_admin_reads_the_funnel(
    tree: Tree, node: Node, old: PlayedAgent
) -> None:
    uuid = booted(tree, old)
    add_host(node, "h2", vcpus=1)

    act(node, uuid, MIGRATE)
    tree.settle(1)

    assert last(node, uuid) == ("migrate", "error", "move_no_valid_host")
    assert (shown(node, uuid), states(node, uuid)) == (("ACTIVE", None, "h1"), ["confirmed"])
    assert event(node, uuid, "admin") == (
        "No other host of the zone has room for the server."
        " Hosts left: move (present_host) 2 to 1, CoreFilter (not_enough_vcpus) 1 to 0."
    )
    assert event(node, uuid, "member") == "No other host of the zone has room for the server."
    nothing_is_wrong(tree)


def event(node: Node, uuid: str, user: str) -> str:
    """Return the event of a server's last action."""
    client = node.client(user)
    request_id = client.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"][0]["request_id"]
    found = client.get(f"/servers/{uuid}/os-instance-actions/{request_id}").json["instanceAction"]
    details: str = found["events"][0]["details"]
    return details


def test_only_the_admin_reads_which_hosts_a_server_has_moved_between(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    for agent in (old, new):
        agent.converge()

    assert event(node, uuid, "admin") == "From host h1 to host h2."
    assert event(node, uuid, "member") is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"migrate": {"host": "h9"}}, (400, "host_not_found")),
        ({"migrate": {"host": "h1"}}, (400, "host_has_server")),
        ({"migrate": {"host": ""}}, (400, "invalid_value")),
        ({"migrate": {"hosts": "h2"}}, (400, "unknown_field")),
        ({"migrate": "h2"}, (400, "wrong_type")),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    tree: Tree, node: Node, old: PlayedAgent, body: Any, expected: tuple[int, str]
) -> None:
    uuid = on_h1(tree, old)

    assert code(act(node, uuid, body)) == expected
    assert shown(node, uuid) == ("ACTIVE", None, "h1")
    assert last(node, uuid)[0] == "create"


def test_members_may_not_and_paused_or_ended_servers_cannot_be_moved(
    tree: Tree, node: Node, old: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)

    of_member = code(act(node, uuid, MIGRATE, user="member"))
    act(node, uuid, {"pause": None})
    old.converge()
    paused = code(act(node, uuid, MIGRATE))

    assert of_member == (403, "forbidden")
    assert paused == (409, "wrong_status")
    assert code(act(node, "0" * 8 + uuid[8:], MIGRATE)) == (404, "instance_not_found")


def test_a_driver_that_cannot_stop_it_leaves_it_running(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    old.cannot_leave = "folder_not_copied"

    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    old.cannot_leave = ""
    old.converge()

    assert last(node, uuid) == ("migrate", "error", "move_not_left")
    assert (shown(node, uuid), states(node, uuid)) == (("ACTIVE", None, "h1"), ["confirmed", "gone"])
    assert (old.running, new.work()) == ({(uuid, 1)}, [])
    nothing_is_wrong(tree)


@pytest.mark.parametrize(
    ("agent_fails", "reason"),
    [
        ("folder_not_shared", "folder_not_shared"),
        ("folder_not_copied", "folder_not_copied"),
        ("process_not_started", "move_not_built"),
    ],
)
def test_a_new_host_that_cannot_build_it_gives_it_back_once_nothing_is_left_there(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent, agent_fails: str, reason: str
) -> None:
    uuid = on_h1(tree, old)
    new.cannot_build = agent_fails

    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    new.converge()
    old.converge()
    returning = shown(node, uuid), states(node, uuid), set(old.running)
    new.converge()
    returned = shown(node, uuid), states(node, uuid)
    old.converge()

    assert returning == (("RESIZE", "resize_migrating", "h1"), ["parked", "releasing"], set())
    assert returned == (("ACTIVE", None, "h1"), ["confirmed", "released"])
    assert last(node, uuid) == ("migrate", "error", reason)
    assert old.running == {(uuid, 1)}
    nothing_is_wrong(tree)


def test_a_host_where_its_boot_had_failed_may_take_it_later(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    # given: its build failed on h1, and it runs on h2
    made = node.client("member").post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    uuid = made.json["server"]["id"]
    tree.settle()
    old.report([{"uuid": uuid, "attempt": 1, "state": "error", "reason": "disk_full"}])
    add_host(node, "h2", vcpus=4)
    tree.settle()
    new.converge()
    assert (shown(node, uuid), states(node, uuid)) == (("ACTIVE", None, "h2"), ["failed", "confirmed"])

    # when
    act(node, uuid, MIGRATE)
    tree.settle(1)
    new.converge()
    old.converge()
    new.converge()

    # then
    assert last(node, uuid) == ("migrate", "done", "")
    assert shown(node, uuid) == ("ACTIVE", None, "h1")
    nothing_is_wrong(tree)


def test_it_returns_from_a_new_host_that_was_evacuated(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    # given a move to a host that is lost before it reports anything
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    new.work()
    tree.clock.advance(OVERDUE_S)
    tree.settle(1)
    # when an operator says that nothing can run there, and its agent is back later
    evacuate(node, "h2")
    old.converge()
    returned = shown(node, uuid), states(node, uuid), set(old.running)
    new.converge()
    # then it runs on its old host before that
    assert returned == (("ACTIVE", None, "h1"), ["confirmed", "releasing"], {(uuid, 1)})
    assert (states(node, uuid), new.running) == (["confirmed", "released"], set())
    nothing_is_wrong(tree)


def evacuate(node: Node, name: str) -> None:
    (service,) = node.client().get(f"/os-services?host={name}&binary=nova-compute").json["services"]
    path = f"/os-services/{service['id']}"
    assert node.client().call("PUT", path, {"forced_down": True}).status == 200
    assert node.client().post(f"{path}/action", {"evacuate": {"fenced": True}}).status == 202


def test_an_old_agent_that_is_silent_keeps_the_server_and_the_hold_ends(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    (line,) = old.work()

    tree.clock.advance(OVERDUE_S)
    tree.settle(1)
    # It had stopped the server, and its report comes late.
    old.report([{"uuid": uuid, "attempt": 1, "state": "left", "left_for": line["leaves_for"]}])
    old.converge()

    assert last(node, uuid) == ("migrate", "error", "move_not_left_in_time")
    assert (shown(node, uuid), states(node, uuid)) == (("ACTIVE", None, "h1"), ["confirmed", "gone"])
    assert old.running == {(uuid, 1)}
    nothing_is_wrong(tree)


def test_a_late_report_of_an_earlier_move_stops_nothing(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    tree.clock.advance(OVERDUE_S)
    tree.settle(1)
    old.converge()
    act(node, uuid, MIGRATE)
    tree.beat()
    add_host(node, "h2", vcpus=4)
    tree.settle(1)

    old.report([{"uuid": uuid, "attempt": 1, "state": "left", "left_for": 2}])

    assert states(node, uuid) == ["confirmed", "gone", "held"]
    assert new.work() == []


@pytest.mark.parametrize("has_fetched", [False, True])
def test_a_new_agent_that_is_silent_gives_it_back_at_once_only_if_it_cannot_have_it(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent, has_fetched: bool
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    if has_fetched:
        new.work()

    tree.clock.advance(OVERDUE_S)
    tree.settle(1)
    old.converge()
    waiting = states(node, uuid), set(old.running)
    new.converge()
    old.converge()

    if has_fetched:
        assert waiting == (["parked", "releasing"], set())
    else:
        assert waiting == (["confirmed", "released"], {(uuid, 1)})
    assert last(node, uuid) == ("migrate", "error", "move_timeout")
    assert (shown(node, uuid), old.running, new.running) == (("ACTIVE", None, "h1"), {(uuid, 1)}, set())
    nothing_is_wrong(tree)


def test_what_arrived_while_the_zone_was_away_for_longer_stays_at_its_new_place(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    # given a server that its old agent has left, and that its new one has fetched
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    new.work()

    # when the zone is back, and works before that agent has called again
    tree.clock.advance(OVERDUE_S)
    tree.restart("leaf")
    tree.settle()
    node = new.node = old.node = tree.nodes["leaf"]
    new.converge()
    old.converge()

    # then
    assert last(node, uuid) == ("migrate", "done", "")
    assert (shown(node, uuid), old.running, new.running) == (("ACTIVE", None, "h2"), set(), {(uuid, 2)})
    nothing_is_wrong(tree)


def test_what_left_its_host_while_the_zone_was_away_for_longer_goes_on_to_the_new_one(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    # given a server that its old agent is to leave for its new host
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)

    # when the zone is back, and works before that agent can say that it has
    tree.clock.advance(2 * OVERDUE_S)
    tree.restart("leaf")
    tree.settle()
    node = new.node = old.node = tree.nodes["leaf"]
    waiting = states(node, uuid), list(audit.run(node.zone))
    old.converge()
    new.converge()
    old.converge()

    # then
    assert waiting == (["confirmed", "held"], [])
    assert last(node, uuid) == ("migrate", "done", "")
    assert (shown(node, uuid), old.running, new.running) == (("ACTIVE", None, "h2"), set(), {(uuid, 2)})
    nothing_is_wrong(tree)


def test_a_new_host_from_which_it_returns_is_removed_only_once_nothing_runs_there(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    # given a server that returns from a host whose agent has it, and is cut off
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    new.work()
    tree.clock.advance(OVERDUE_S)
    tree.settle(1)
    (h2,) = [h for h in hosts.list_hypervisors(node.zone) if h.name == "h2"]
    # when that host is removed
    refused = code(node.client().delete(f"/os-services/{h2.id}"))
    tree.clock.advance(OVERDUE_S)
    tree.settle(1)
    old.converge()
    meanwhile = set(old.running)
    # then the server is back only once an operator has said that nothing runs there
    evacuate(node, "h2")
    old.converge()
    removed = node.client().delete(f"/os-services/{h2.id}").status
    assert (refused, meanwhile, removed) == ((409, "host_has_instances"), set(), 204)
    assert (shown(node, uuid), old.running) == (("ACTIVE", None, "h1"), {(uuid, 1)})
    nothing_is_wrong(tree)


def test_a_server_that_its_old_host_loses_while_it_leaves_is_in_error_and_the_hold_ends(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)

    old.report([{"uuid": uuid, "attempt": 1, "state": "gone"}])
    tree.settle(1)

    assert node.client().get(f"/servers/{uuid}").json["server"]["status"] == "ERROR"
    assert states(node, uuid) == ["released", "gone"]
    nothing_is_wrong(tree)


def test_hosts_of_an_anti_affinity_group_are_kept_apart_by_a_move(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    group = {"name": "apart", "policy": "anti-affinity"}
    made = node.client("member").post("/os-server-groups", {"server_group": group}).json["server_group"]
    hints: dict[str, Any] = {"os:scheduler_hints": {"group": made["id"]}}
    first = on_h1(tree, old, **hints)
    second = booted(tree, new, **hints)

    act(node, first, MIGRATE)
    tree.settle(1)
    refused = last(node, first)
    add_host(node, "h3", vcpus=4)
    act(node, first, MIGRATE)
    tree.settle(1)
    for agent in (old, new, old):
        agent.converge()

    assert refused == ("migrate", "error", "move_no_valid_host")
    assert (shown(node, first)[2], shown(node, second)[2]) == ("h3", "h2")
    nothing_is_wrong(tree)


def test_one_of_an_affinity_group_stays(tree: Tree, node: Node, old: PlayedAgent) -> None:
    group = {"name": "together", "policy": "affinity"}
    made = node.client("member").post("/os-server-groups", {"server_group": group}).json["server_group"]
    uuid = on_h1(tree, old, **{"os:scheduler_hints": {"group": made["id"]}})

    assert code(act(node, uuid, MIGRATE)) == (409, "affinity_stays")
    assert last(node, uuid)[0] == "create"
    nothing_is_wrong(tree)


def test_one_of_an_affinity_request_stays_while_others_of_it_live(
    tree: Tree, node: Node, old: PlayedAgent
) -> None:
    server = {"name": "vm", "flavorRef": "small", "num_instances": 2}
    body = {"server": server, "os:scheduler_hints": {"group_policy": "affinity"}}
    made = node.client("member").post("/zones/boot", body).json["reservation_id"]
    tree.settle()
    old.converge()
    boot = node.client("member").get(f"/reservations/{made}").json["reservation"]
    one, other = (str(line["uuid"]) for line in boot["instances"])

    together = code(act(node, one, MIGRATE))
    node.client("member").delete(f"/servers/{other}")
    alone = act(node, one, MIGRATE)

    assert (together, alone.status) == ((409, "affinity_stays"), 202)


def test_all_servers_of_a_boot_move_at_once(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2}}
    made = node.client("member").post("/zones/boot", body).json["reservation_id"]
    tree.settle()
    old.converge()
    add_host(node, "h2", vcpus=4)

    reply = node.client().post(f"/reservations/{made}/action", MIGRATE)
    tree.settle(1)
    for agent in (old, new, old):
        agent.converge()

    assert (reply.status, reply.json) == (202, {"accepted": 2, "refused": []})
    assert len(new.running) == 2
    assert {state for (state,) in ask(tree.folder / "leaf.sqlite", "SELECT state FROM moves")} == {"done"}
    nothing_is_wrong(tree)


def a_server_below(tmp_path: Path) -> tuple[Tree, str, PlayedAgent, PlayedAgent]:
    """A server of the root in a leaf: its uuid, its agent, and the agent of another host with room."""
    tree = Tree(tmp_path)
    root = tree.add("root")
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=4)])
    tree.poll()
    root.client().post("/flavors", FLAVOR)
    old, new = PlayedAgent(leaf), PlayedAgent(leaf, service="agent-2")
    uuid = booted(tree, old, "root")
    tree.settle()
    add_host(leaf, "h2", vcpus=4)
    return tree, uuid, old, new


def test_the_owner_above_sees_the_move_and_only_the_zone_that_has_the_host_takes_it(
    tmp_path: Path,
) -> None:
    tree, uuid, old, new = a_server_below(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    before = root.client("member").get(f"/servers/{uuid}").json["server"]

    above = code(act(root, uuid, MIGRATE))
    taken = act(leaf, uuid, MIGRATE).status
    tree.step("root")
    (begun,) = root.client("member").get("/servers/detail").json["servers"]
    tree.settle(1)
    moving = root.client("member").get(f"/servers/{uuid}").json["server"]
    stop = code(act(root, uuid, {"os-stop": None}, user="member"))
    for agent in (old, new, old):
        agent.converge()
    after = root.client("member").get(f"/servers/{uuid}").json["server"]
    act(root, uuid, {"os-stop": None}, user="member")
    tree.settle()
    new.converge()
    tree.settle()
    stopped = root.client("member").get(f"/servers/{uuid}").json["server"]

    assert (above, taken) == ((409, "server_in_child"), 202)
    assert begun["status"] == "RESIZE"
    assert (moving["status"], moving["OS-EXT-STS:task_state"]) == ("RESIZE", "resize_migrating")
    assert stop == (409, "wrong_status")
    assert (before["status"], after["status"], stopped["status"]) == ("ACTIVE", "ACTIVE", "SHUTOFF")
    assert after["hostId"] == before["hostId"] == ""
    nothing_is_wrong(tree)
    assert root.client("member").delete(f"/servers/{uuid}").status == 204
    tree.settle()
    assert PlacementState.CONFIRMED not in {p.state for p in places_of(leaf.zone, uuid)}


SHELVE, UNSHELVE = {"shelve": None}, {"unshelve": None}


@pytest.mark.parametrize("steps", range(5))
def test_an_owner_above_who_shelves_it_meanwhile_ends_the_move_at_no_place(
    tmp_path: Path, steps: int
) -> None:
    # given a server below whose move has come so far, of which its owner's zone has not heard yet
    tree, uuid, old, new = a_server_below(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    new.cannot_build = "build_failed"
    act(leaf, uuid, MIGRATE)
    for step in [lambda: tree.step("leaf"), old.converge, new.work, new.converge][:steps]:
        step()
    # when the owner shelves it, and later wants it back
    assert act(root, uuid, SHELVE, user="member").status == 202
    tree.settle()
    moves_then = states(leaf, uuid)
    for agent in (old, new):
        agent.converge()
    tree.settle()
    shelved = root.client("member").get(f"/servers/{uuid}").json["server"]["status"]
    running = old.running | new.running
    new.cannot_build = ""
    back = act(root, uuid, UNSHELVE, user="member").status
    tree.settle()
    for _ in range(2):
        for agent in (old, new):
            agent.converge()
        tree.settle()
    # then nothing is left anywhere before it is placed anew
    assert "parked" not in moves_then and "held" not in moves_then
    assert (shelved, running, back) == ("SHELVED_OFFLOADED", set(), 202)
    assert root.client("member").get(f"/servers/{uuid}").json["server"]["status"] == "ACTIVE"
    assert len(old.running | new.running) == 1
    (move,) = leaf.client().get("/os-migrations").json["migrations"]
    assert move["status"] == "error"
    nothing_is_wrong(tree)


def test_an_owner_above_who_stops_it_meanwhile_does_not_end_the_action_of_the_move(tmp_path: Path) -> None:
    # given a server below that is to leave its host, of which its owner's zone has not heard yet
    tree, uuid, old, new = a_server_below(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    act(leaf, uuid, MIGRATE)
    # when the owner stops it before a host was found, and the move goes on
    assert act(root, uuid, {"os-stop": None}, user="member").status == 202
    PendingCalls(root.zone).step()
    old.converge()
    tree.settle()
    for agent in (old, new, old, new):
        agent.converge()
    tree.settle()
    # then both have been done, each for itself
    server = root.client("member").get(f"/servers/{uuid}").json["server"]
    assert (server["status"], states(leaf, uuid)) == ("SHUTOFF", ["released", "confirmed"])
    migrate = "SELECT result, reason FROM instance_actions WHERE action = 'migrate'"
    assert ask(tree.folder / "leaf.sqlite", migrate) == [("done", "")]
    nothing_is_wrong(tree)


@pytest.mark.parametrize("steps", range(2))
def test_an_owner_above_who_shelves_all_of_a_boot_ends_the_move_of_each(tmp_path: Path, steps: int) -> None:
    # given two servers below that are both about to leave their host
    tree = Tree(tmp_path)
    root = tree.add("root")
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=4)])
    tree.poll()
    root.client().post("/flavors", FLAVOR)
    old = PlayedAgent(leaf)
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2}}
    made = root.client("member").post("/zones/boot", body).json["reservation_id"]
    tree.settle()
    old.converge()
    tree.settle()
    PlayedAgent(leaf, service="agent-2")
    add_host(leaf, "h2", vcpus=4)
    for server in root.client("member").get("/servers").json["servers"]:
        assert act(leaf, server["id"], MIGRATE).status == 202
    for _ in range(steps):
        tree.step("leaf")
    # when
    shelve = root.client("member").post(f"/reservations/{made}/action", SHELVE)
    tree.settle()
    # then
    assert shelve.json == {"accepted": 2, "refused": []}
    assert set(ask(tree.folder / "leaf.sqlite", "SELECT state, reason FROM moves")) == {
        ("failed", "move_shelved")
    }
    old.converge()
    tree.settle()
    nothing_is_wrong(tree)


def test_one_that_came_back_can_be_shelved_and_unshelved(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    new.cannot_build = "build_failed"
    act(node, uuid, MIGRATE)
    tree.settle(1)
    for agent in (old, new, new, old):
        agent.converge()
    assert states(node, uuid) == ["confirmed", "released"]

    act(node, uuid, SHELVE, user="member")
    old.converge()
    new.cannot_build = ""
    act(node, uuid, UNSHELVE, user="member")
    tree.settle()
    for agent in (old, new):
        agent.converge()

    assert states(node, uuid) == ["released", "released", "confirmed"]
    assert shown(node, uuid)[0] == "ACTIVE"
    nothing_is_wrong(tree)


def test_one_that_ended_by_itself_before_it_left_is_not_started_by_its_move(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    (line,) = old.work()
    old.report([a_report(line, 0, "stopped", "ended_by_itself")])

    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    (arriving,) = new.work()
    new.converge()

    assert arriving["desired"]["power"] == "stopped"
    assert shown(node, uuid) == ("SHUTOFF", None, "h2")


def test_one_that_ends_by_itself_while_a_host_is_looked_for_does_not_end_the_action_of_its_move(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    # given a server without any other action, whose report is as old as its boot
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    # when
    (line,) = old.work()
    old.report([a_report(line, 0, "stopped", "ended_by_itself")])
    ended = last(node, uuid)
    tree.settle(1)
    for agent in (old, new, old):
        agent.converge()
    # then the action ends with its move
    assert ended == ("migrate", None, "")
    assert last(node, uuid) == ("migrate", "done", "")
    assert shown(node, uuid) == ("SHUTOFF", None, "h2")
    nothing_is_wrong(tree)


def test_one_that_ends_by_itself_as_it_arrives_is_shown_so_at_once(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    (arriving,) = new.work()

    new.report([a_report(arriving, 0, "stopped", "ended_by_itself")])

    assert shown(node, uuid) == ("SHUTOFF", None, "h2")
    assert states(node, uuid) == ["releasing", "confirmed"]


def sql(node: Node, statement: str) -> None:
    node.zone.store.write(lambda tx: tx.execute(sa.text(statement)))


BROKEN = [
    ("UPDATE placements SET state = 'confirmed' WHERE number = 1", "move_broken"),
    ("UPDATE moves SET state = 'leaving'", "move_broken"),
    ("UPDATE moves SET next_step_at = 1", "move_overdue"),
    ("DELETE FROM moves", "parked_without_move"),
    ("UPDATE instance_states SET moves_ended = moves_begun", "moves_differ"),
]


@pytest.mark.own_statements
@pytest.mark.parametrize(("statement", "kind"), BROKEN)
def test_rows_of_a_move_that_contradict_each_other_are_found_and_repaired(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent, statement: str, kind: str
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()
    assert list(audit.run(node.zone)) == []

    sql(node, statement)
    found = {one.kind for one in audit.run(node.zone)}
    repair.run(node.zone)

    assert kind in found
    assert list(audit.run(node.zone)) == []
    for _ in range(2):
        tree.settle(1)
        for agent in (old, new):
            agent.converge()
    assert len(old.running | new.running) == 1
    nothing_is_wrong(tree)


@pytest.mark.own_statements
def test_an_action_whose_move_a_repair_has_ended_says_so(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, MIGRATE)
    tree.settle(1)
    old.converge()

    sql(node, "UPDATE moves SET state = 'leaving'")
    repair.run(node.zone)

    shown = node.client().get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"][0]
    assert (shown["result"], shown["error_code"]) == ("error", "repaired")
    assert shown["message"] == "A repair of this zone's rows has ended the action."


def test_migrations_of_the_same_time_are_listed_by_server_and_the_newest_of_each_first(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuids = [booted(tree, old) for _ in range(2)]
    add_host(node, "h2", vcpus=4)

    for _ in range(4):
        for uuid in uuids:
            assert act(node, uuid, MIGRATE).status == 202
        tree.settle(1)
        for agent in (old, new) * 2:
            agent.converge()

    listed = node.client().get("/os-migrations").json["migrations"]
    assert len({one["created_at"] for one in listed}) == 1
    assert [one["instance_uuid"] for one in listed] == sorted(uuids * 4)
    assert [one["dest_compute"] for one in listed] == ["h1", "h2"] * 4


def test_migrations_are_listed_to_the_zones_admin_with_hosts_and_to_members_without_any(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, {"migrate": {"host": "h2"}})
    tree.settle(1)
    under_way = node.client().get(f"/servers/{uuid}/migrations").json["migrations"]
    shown_alone = node.client().get(f"/servers/{uuid}/migrations/{under_way[0]['id']}")
    for agent in (old, new, old):
        agent.converge()
    tree.clock.advance(1.0)
    act(node, uuid, MIGRATE)
    tree.settle(1)

    every = node.client().get("/os-migrations").json["migrations"]
    some = [
        len(node.client().get(f"/os-migrations?{query}").json["migrations"])
        for query in ("status=confirmed", f"instance_uuid={uuid}", "host=h9", "limit=1")
    ]

    assert shown_alone.json == {"migration": under_way[0]}
    assert (under_way[0]["source_compute"], under_way[0]["dest_compute"]) == ("h1", "h2")
    statuses = [one["status"] for one in [*under_way, *reversed(every)]]
    assert statuses == ["migrating", "confirmed", "migrating"]
    assert some == [1, 2, 0, 1]
    (of_member,) = node.client("member").get(f"/servers/{uuid}/migrations").json["migrations"]
    assert (of_member["status"], of_member["source_compute"]) == ("migrating", None)
    path = f"/servers/{uuid}/migrations/{of_member['id']}"
    aborted = (
        code(node.client().delete(path)),
        code(node.client().post(f"{path}/action", {"force_complete": None})),
    )
    assert aborted == ((400, "migration_not_live"),) * 2
