"""Resizes with confirm and revert, over HTTP: in a zone and over a tree, with agents that are played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot, counts, nothing_is_wrong
from tests.builders.moving import act, add_host, booted, code, last, on_h1, shown, states
from tests.builders.one_zone import sql
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.services.audit import audit, repair
from zonesched.services.owners import resize_confirms

pytestmark = pytest.mark.same_statements

LARGE = {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 3}}
WIDE = {"flavor": {**FLAVOR["flavor"], "id": "wide", "name": "wide", "ram": 4096}}
HUGE = {"flavor": {**FLAVOR["flavor"], "id": "huge", "name": "huge", "vcpus": 99}}
RESIZE, CONFIRM, REVERT = {"resize": {"flavorRef": "large"}}, {"confirmResize": None}, {"revertResize": None}
BUILD_S, OVERDUE_S = 900.0, 901.0


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=4)])
    for flavor in (FLAVOR, LARGE, WIDE, HUGE):
        node.client().post("/flavors", flavor)
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


def used_vcpus(node: Node) -> dict[str, int]:
    """The claimed VCPUs of each host."""
    found = node.client().get("/os-hypervisors/detail").json["hypervisors"]
    return {one["hypervisor_hostname"]: one["vcpus_used"] for one in found}


def flavor_of(node: Node, uuid: str) -> str:
    found: str = node.client().get(f"/servers/{uuid}").json["server"]["flavor"]["original_name"]
    return found


def resized(
    tree: Tree, node: Node, uuid: str, *agents: PlayedAgent, flavor: str = "large", user: str = "member"
) -> None:
    """Resize a server as far as its owner has to confirm it."""
    assert act(node, uuid, {"resize": {"flavorRef": flavor}}, user=user).status == 202
    tree.settle(1)
    for agent in (*agents, *agents):
        agent.converge()
    assert shown(node, uuid)[0] == "VERIFY_RESIZE"


@pytest.mark.parametrize(("more", "shown_as"), [({"OS-DCF:diskConfig": "AUTO"}, "AUTO"), ({}, "MANUAL")])
def test_a_resize_may_name_the_disk_configuration(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent, more: dict[str, str], shown_as: str
) -> None:
    """Resize as Horizon's form does, and with the id of a flavor as a number as fog does."""
    seven = {"flavor": {**LARGE["flavor"], "id": "7", "name": "seven"}}
    assert node.client().post("/flavors", seven).status == 200
    uuid = on_h1(tree, old)

    reply = act(node, uuid, {"resize": {"flavorRef": 7, **more}}, user="member")
    tree.settle(1)
    for agent in (old, new, old, new):
        agent.converge()

    server = node.client().get(f"/servers/{uuid}").json["server"]
    assert reply.status == 202, reply.body
    assert (server["status"], server["flavor"]["original_name"]) == ("VERIFY_RESIZE", "seven")
    assert server["OS-DCF:diskConfig"] == shown_as


def test_its_usage_has_the_state_in_which_a_resized_server_is_shown(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)

    resized(tree, node, uuid, old, new)

    (usage,) = (
        node.client("member").get("/os-simple-tenant-usage/project-1").json["tenant_usage"]["server_usages"]
    )
    server = node.client().get(f"/servers/{uuid}").json["server"]
    assert usage["state"] == server["OS-EXT-STS:vm_state"] == "resized"


def test_a_server_is_resized_step_by_step_and_both_places_are_claimed_until_it_is_confirmed(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)

    reply = act(node, uuid, RESIZE, user="member")
    accepted = shown(node, uuid), flavor_of(node, uuid)
    tree.settle(1)
    held = shown(node, uuid), states(node, uuid), used_vcpus(node)
    masked = [line["desired"]["generation"] for line in old.work() if line["uuid"] == uuid]
    old.converge()
    switched = shown(node, uuid)
    (line,) = new.work()
    new.converge()
    verifying = shown(node, uuid), states(node, uuid), used_vcpus(node), flavor_of(node, uuid)
    confirmed = act(node, uuid, CONFIRM, user="member").status
    after = shown(node, uuid), states(node, uuid), used_vcpus(node)
    old.converge()

    assert (reply.status, reply.body) == (202, b"")
    assert accepted == (("RESIZE", "resize_migrating", "h1"), "small")
    assert held == (("RESIZE", "resize_migrating", "h1"), ["confirmed", "held"], {"h1": 2, "h2": 3})
    assert masked == [0]
    assert switched == ("RESIZE", "resize_migrating", "h2")
    assert (line["moved_from"], line["flavor"]["vcpus"], line["desired"]["generation"]) == (1, 3, 1)
    assert verifying == (
        ("VERIFY_RESIZE", None, "h2"),
        ["parked", "confirmed"],
        {"h1": 2, "h2": 3},
        "large",
    )
    assert (confirmed, after[0]) == (204, ("ACTIVE", None, "h2"))
    assert after[1:] == (["releasing", "confirmed"], {"h1": 2, "h2": 3})
    assert (states(node, uuid), used_vcpus(node)) == (["released", "confirmed"], {"h1": 0, "h2": 3})
    assert last(node, uuid) == ("confirmResize", "done", "")
    assert flavor_of(node, uuid) == "large"
    assert new.running == {(uuid, 2)}
    nothing_is_wrong(tree)


def test_a_revert_ends_it_at_the_new_place_before_it_runs_at_the_old_one_again(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    resized(tree, node, uuid, old, new)

    reverted = act(node, uuid, REVERT, user="member").status
    reverting = shown(node, uuid), states(node, uuid)
    old.converge()
    still = (uuid, 1) in old.running
    new.converge()
    back = shown(node, uuid), states(node, uuid), flavor_of(node, uuid)
    old.converge()

    assert reverted == 202
    assert reverting == (("REVERT_RESIZE", "resize_reverting", "h1"), ["parked", "releasing"])
    assert not still
    assert back == (("ACTIVE", None, "h1"), ["confirmed", "released"], "small")
    assert last(node, uuid) == ("revertResize", "done", "")
    assert ((uuid, 1) in old.running, new.running) == (True, set())
    assert used_vcpus(node) == {"h1": 2, "h2": 0}
    nothing_is_wrong(tree)


def test_it_can_stay_on_its_host_where_both_flavors_fit(tree: Tree, node: Node, old: PlayedAgent) -> None:
    uuid = booted(tree, old)

    resized(tree, node, uuid, old, flavor="wide")
    both = shown(node, uuid), used_vcpus(node), set(old.running)
    act(node, uuid, CONFIRM, user="member")
    old.converge()

    assert both == (("VERIFY_RESIZE", None, "h1"), {"h1": 4}, {(uuid, 2)})
    assert (used_vcpus(node), old.running) == ({"h1": 2}, {(uuid, 2)})
    nothing_is_wrong(tree)


def test_a_resize_that_fits_nowhere_leaves_it_as_it_is_and_says_why(
    tree: Tree, node: Node, old: PlayedAgent
) -> None:
    uuid = booted(tree, old)

    act(node, uuid, {"resize": {"flavorRef": "huge"}}, user="member")
    tree.settle(1)
    old.converge()

    assert last(node, uuid) == ("resize", "error", "resize_no_valid_host")
    assert (shown(node, uuid), flavor_of(node, uuid)) == (("ACTIVE", None, "h1"), "small")
    assert (states(node, uuid), old.running, used_vcpus(node)) == (["confirmed"], {(uuid, 1)}, {"h1": 2})
    nothing_is_wrong(tree)
    # Nothing of it is left to do.
    act(node, uuid, {"os-stop": None}, user="member")
    old.converge()
    assert shown(node, uuid) == ("SHUTOFF", None, "h1")


def test_the_owner_above_resizes_a_server_in_the_lowest_zone(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    root = tree.add("root")
    tree.add("middle", parent="root")
    leaf = tree.add("leaf", parent="middle", hosts_=[a_host("h1", vcpus=4)])
    tree.poll(2)
    for flavor in (FLAVOR, LARGE):
        root.client().post("/flavors", flavor)
    old, new = PlayedAgent(leaf), PlayedAgent(leaf, service="agent-2")
    uuid = booted(tree, old, "root")
    tree.settle()
    add_host(leaf, "h2", vcpus=4)

    def status(name: str = "root") -> tuple[str, str | None, str]:
        found = tree.nodes[name].client("member").get(f"/servers/{uuid}").json["server"]
        return found["status"], found["OS-EXT-STS:task_state"], found["flavor"]["original_name"]

    taken = act(root, uuid, RESIZE, user="member").status
    asked = status()
    tree.settle(3)
    moving = status()
    for agent in (old, new, old, new):
        agent.converge()
    tree.settle(3)
    verifying = status()
    act(root, uuid, REVERT, user="member")
    reverting = status()
    tree.settle(3)
    for agent in (new, old, new, old):
        agent.converge()
    tree.settle(3)
    reverted = status()
    act(root, uuid, RESIZE, user="member")
    tree.settle(3)
    for agent in (old, new, old, new):
        agent.converge()
    tree.settle(3)
    act(root, uuid, CONFIRM, user="member")
    tree.settle(3)
    old.converge()
    tree.settle(3)
    assert (taken, asked) == (202, ("RESIZE", "resize_prep", "small"))
    assert moving == ("RESIZE", "resize_migrating", "small")
    assert verifying == ("VERIFY_RESIZE", None, "large")
    assert reverting == ("REVERT_RESIZE", "resize_reverting", "large")
    assert reverted == ("ACTIVE", None, "small")
    assert status() == ("ACTIVE", None, "large")
    assert [last_result(root, uuid, n) for n in range(4)] == [
        ("confirmResize", "done"),
        ("resize", "done"),
        ("revertResize", "done"),
        ("resize", "done"),
    ]
    assert len(old.running | new.running) == 1
    nothing_is_wrong(tree)


def last_result(node: Node, uuid: str, number: int) -> tuple[str, str]:
    line = node.client().get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"][number]
    return line["action"], line["result"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"resize": {"flavorRef": "small"}}, (400, "flavor_unchanged")),
        ({"resize": {"flavorRef": "none"}}, (400, "flavor_unknown")),
        ({"resize": {"flavorRef": "secret"}}, (400, "flavor_unknown")),
        ({"resize": {"flavorRef": 7}}, (400, "flavor_unknown")),
        ({"resize": {"flavorRef": True}}, (400, "wrong_type")),
        ({"resize": {"flavorRef": "large", "OS-DCF:diskConfig": "SOME"}}, (400, "invalid_value")),
        ({"resize": {"flavorRef": ""}}, (400, "invalid_value")),
        ({"resize": {}}, (400, "missing_field")),
        ({"resize": None}, (400, "invalid_value")),
        ({"resize": "large"}, (400, "wrong_type")),
        ({"resize": {"flavorRef": "large", "host": "h2"}}, (400, "unknown_field")),
        ({**RESIZE, **CONFIRM}, (400, "invalid_value")),
        ({"confirmResize": {"now": True}}, (400, "invalid_value")),
        ({"confirmResize": {}}, (409, "wrong_status")),
        (CONFIRM, (409, "wrong_status")),
        (REVERT, (409, "wrong_status")),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    tree: Tree, node: Node, old: PlayedAgent, body: Any, expected: tuple[int, str]
) -> None:
    secret = {**LARGE["flavor"], "id": "secret", "name": "secret", "os-flavor-access:is_public": False}
    assert node.client().post("/flavors", {"flavor": secret}).status == 200
    uuid = on_h1(tree, old)

    assert code(act(node, uuid, body, user="member")) == expected
    assert (shown(node, uuid), flavor_of(node, uuid)) == (("ACTIVE", None, "h1"), "small")
    assert last(node, uuid)[0] == "create"


def test_while_a_resize_waits_for_its_confirmation_nothing_else_is_taken_but_a_delete(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    resized(tree, node, uuid, old, new)

    bodies = ({"os-stop": None}, RESIZE, {"shelve": None}, {"reboot": {"type": "HARD"}}, {"migrate": None})
    replies = [code(act(node, uuid, body)) for body in bodies]
    deleted = node.client("member").delete(f"/servers/{uuid}").status
    for agent in (old, new):
        agent.converge()

    assert replies == [(409, "wrong_status")] * len(bodies)
    assert deleted == 204
    assert states(node, uuid) == ["released", "released"]
    assert new.running == set()
    assert used_vcpus(node) == {"h1": 0, "h2": 0}
    (move,) = node.client().get("/os-migrations").json["migrations"]
    assert move["status"] == "confirmed"
    nothing_is_wrong(tree)
    for body in (CONFIRM, REVERT, RESIZE):
        assert code(act(node, uuid, body)) == (404, "instance_not_found")


@pytest.mark.parametrize(
    ("agent_fails", "expected"),
    [("old", "move_not_left"), ("new", "move_not_built")],
)
def test_a_resize_that_an_agent_cannot_do_leaves_it_as_it_was(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent, agent_fails: str, expected: str
) -> None:
    uuid = on_h1(tree, old)
    old.cannot_leave = "folder_not_copied" if agent_fails == "old" else ""
    new.cannot_build = "driver_failed"

    act(node, uuid, RESIZE, user="member")
    tree.settle(1)
    for agent in (old, new, old, new):
        agent.converge()
    old.cannot_leave = ""
    old.converge()

    assert last(node, uuid) == ("resize", "error", expected)
    assert (shown(node, uuid), flavor_of(node, uuid)) == (("ACTIVE", None, "h1"), "small")
    assert (old.running, new.running) == ({(uuid, 1)}, set())
    assert used_vcpus(node) == {"h1": 2, "h2": 0}
    nothing_is_wrong(tree)


def test_a_stopped_server_stays_stopped(tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent) -> None:
    uuid = on_h1(tree, old)
    act(node, uuid, {"os-stop": None}, user="member")
    old.converge()

    act(node, uuid, RESIZE, user="member")
    tree.settle(1)
    old.converge()
    (line,) = new.work()
    new.converge()
    act(node, uuid, REVERT, user="member")
    for agent in (new, old):
        agent.converge()

    assert line["desired"]["power"] == "stopped"
    assert shown(node, uuid) == ("SHUTOFF", None, "h1")


def test_a_new_host_that_loses_a_resized_server_leaves_it_in_error_at_no_place(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    resized(tree, node, uuid, old, new)

    new.report([{"uuid": uuid, "attempt": 2, "state": "gone"}])
    tree.settle(1)
    old.converge()

    assert node.client().get(f"/servers/{uuid}").json["server"]["status"] == "ERROR"
    assert states(node, uuid) == ["released", "released"]
    nothing_is_wrong(tree)


def test_a_server_of_an_anti_affinity_group_may_stay_on_its_host(
    tree: Tree, node: Node, old: PlayedAgent
) -> None:
    group = {"name": "apart", "policy": "anti-affinity"}
    made = node.client("member").post("/os-server-groups", {"server_group": group}).json["server_group"]
    hints: dict[str, Any] = {"os:scheduler_hints": {"group": made["id"]}}
    uuid = booted(tree, old, **hints)

    resized(tree, node, uuid, old, flavor="wide")
    found_meanwhile = audit.run(node.zone)
    act(node, uuid, CONFIRM)
    old.converge()

    assert found_meanwhile == []
    assert shown(node, uuid) == ("ACTIVE", None, "h1")
    nothing_is_wrong(tree)


def test_one_of_an_affinity_request_is_resized_where_it_is(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    group = {"name": "together", "policy": "affinity"}
    made = node.client("member").post("/os-server-groups", {"server_group": group}).json["server_group"]
    uuid = on_h1(tree, old, **{"os:scheduler_hints": {"group": made["id"]}})

    act(node, uuid, RESIZE, user="member")
    tree.settle(1)
    nowhere = last(node, uuid)
    resized(tree, node, uuid, old, flavor="wide")

    assert nowhere == ("resize", "error", "resize_no_valid_host")
    assert shown(node, uuid) == ("VERIFY_RESIZE", None, "h1")


def test_what_comes_after_a_resize_uses_the_new_flavor(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    resized(tree, node, uuid, old, new)
    act(node, uuid, CONFIRM, user="member")
    old.converge()
    listed = node.client("member").get("/servers?flavor=large").json["servers"]
    usage = node.client("member").get("/limits").json["limits"]["absolute"]["totalCoresUsed"]

    act(node, uuid, {"migrate": None})
    tree.settle(1)
    for agent in (new, old, new):
        agent.converge()
    migrated = shown(node, uuid)[2], used_vcpus(node)
    act(node, uuid, {"shelve": None}, user="member")
    old.converge()
    shelved = node.client().get(f"/servers/{uuid}").json["server"]["status"], used_vcpus(node)
    act(node, uuid, {"unshelve": None}, user="member")
    tree.settle()
    for agent in (old, new):
        agent.converge()

    assert [one["id"] for one in listed] == [uuid]
    assert usage == 3
    assert migrated == ("h1", {"h1": 3, "h2": 0})
    assert shelved == ("SHELVED_OFFLOADED", {"h1": 0, "h2": 0})
    assert (shown(node, uuid)[0], flavor_of(node, uuid)) == ("ACTIVE", "large")
    assert sum(used_vcpus(node).values()) == 3
    nothing_is_wrong(tree)


def test_a_resize_confirms_itself_after_the_window_unless_its_owner_has_decided(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=8)], resize_confirm_window=600.0)
    for flavor in (FLAVOR, WIDE):
        node.client().post("/flavors", flavor)
    agent = PlayedAgent(node)
    first, second = (booted(tree, agent) for _ in range(2))
    for uuid in (first, second):
        resized(tree, node, uuid, agent, flavor="wide")

    tree.clock.advance(599)
    tree.beat()
    tree.settle(1)
    before = [shown(node, uuid)[0] for uuid in (first, second)]
    act(node, second, REVERT, user="member")
    tree.clock.advance(2)
    tree.settle(1)
    agent.converge()

    assert before == ["VERIFY_RESIZE"] * 2
    assert last(node, first) == ("confirmResize", "done", "")
    assert last(node, second) == ("revertResize", "done", "")
    assert [flavor_of(node, uuid) for uuid in (first, second)] == ["wide", "small"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("parked", "the resize of {} is not confirmed: The server has no place."),
        ("broken", "the resize of {} is not confirmed\n"),
    ],
)
def test_confirms_that_are_refused_hold_up_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, state: str, words: str
) -> None:
    # given the resize that has waited for longest, whose rows contradict each other
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=8)], resize_confirm_window=600.0)
    for flavor in (FLAVOR, WIDE):
        node.client().post("/flavors", flavor)
    agent = PlayedAgent(node)
    first, second = (booted(tree, agent) for _ in range(2))
    for uuid in (first, second):
        resized(tree, node, uuid, agent, flavor="wide")
        tree.clock.advance(1)
    sql(node.zone, "update placements set state = :s where uuid = :u", s=state, u=first)
    monkeypatch.setattr(resize_confirms, "BATCH", 1)
    # when
    tree.clock.advance(601)
    pause_s = resize_confirms.confirm_overdue(node.zone)
    agent.converge()
    # then
    assert pause_s == resize_confirms.PAUSE_S
    assert last(node, second) == ("confirmResize", "done", "")
    assert caplog.text.count(words.format(first)) == 1


def resized_below(tree: Tree, hosts: dict[str, PlayedAgent]) -> list[str]:
    """A server in each of these zones, in order, whose resize waits for its confirmation."""
    root, uuids = tree.nodes["root"], list[str]()
    for name, agent in hosts.items():
        tree.register(name, [a_host(f"{name}-1", vcpus=8)])
        tree.poll(2)
        uuid = booted(tree, agent, "root")
        uuids.append(uuid)
        tree.settle(3)
        assert act(root, uuid, RESIZE, user="member").status == 202
        for _ in range(3):
            tree.settle(3)
            agent.converge()
        tree.settle(3)
        (host,) = tree.nodes[name].client().get("/os-services?binary=nova-compute").json["services"]
        tree.nodes[name].client().call("PUT", f"/os-services/{host['id']}", {"status": "disabled"})
    tree.poll(2)
    return uuids


@built_once
def a_tree_with_a_window(folder: Path) -> Tree:
    tree = Tree(folder)
    root = tree.add("root", resize_confirm_window=600.0)
    tree.add("region", parent="root")
    tree.add("leaf", parent="region")
    for flavor in (FLAVOR, LARGE):
        root.client().post("/flavors", flavor)
    return tree


def statuses_of(node: Node, uuids: list[str]) -> list[str]:
    return [node.client().get(f"/servers/{uuid}").json["server"]["status"] for uuid in uuids]


def test_a_confirm_that_a_zone_below_refuses_is_tried_again_after_another_window(tmp_path: Path) -> None:
    # given
    tree = a_tree_with_a_window(tmp_path)
    root, conf = tree.nodes["root"], tree.nodes["region"].zone.conf
    agent = PlayedAgent(tree.nodes["leaf"])
    (uuid,) = resized_below(tree, {"leaf": agent})
    conf.set_override("enable_zone_routing", False)
    # when
    tree.clock.advance(601)
    for _ in range(4):
        tree.settle(3)
        tree.clock.advance(resize_confirms.PAUSE_S)
    # then
    listed = root.client().get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    assert [one["action"] for one in listed] == ["confirmResize", "resize", "create"]
    assert last(root, uuid) == ("confirmResize", "error", "zone_routing_disabled")
    # and
    conf.set_override("enable_zone_routing", True)
    tree.clock.advance(600)
    for _ in range(2):
        tree.settle(3)
        agent.converge()
    tree.settle(3)
    assert (statuses_of(root, [uuid]), flavor_of(root, uuid)) == (["ACTIVE"], "large")


def test_a_zone_that_passes_no_calls_on_confirms_what_is_on_its_own_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    tree = a_tree_with_a_window(tmp_path)
    root = tree.nodes["root"]
    uuids = resized_below(tree, {name: PlayedAgent(tree.nodes[name]) for name in ("leaf", "root")})
    assert statuses_of(root, uuids) == ["VERIFY_RESIZE"] * 2
    root.zone.conf.set_override("enable_zone_routing", False)
    monkeypatch.setattr(resize_confirms, "BATCH", 1)
    # when
    tree.clock.advance(601)
    pauses = [resize_confirms.confirm_overdue(root.zone) for _ in range(3)]
    # then
    assert pauses[-1] == resize_confirms.PAUSE_S
    assert statuses_of(root, uuids) == ["VERIFY_RESIZE", "ACTIVE"]


@built_once
def a_tree(folder: Path) -> Tree:
    tree = Tree(folder)
    root = tree.add("root")
    tree.add("region", parent="root")
    tree.add("a", parent="region", hosts_=[a_host("a1", vcpus=8)])
    tree.add("b", parent="root", hosts_=[a_host("b1", vcpus=8)])
    tree.poll(2)
    for flavor in (FLAVOR, LARGE):
        root.client().post("/flavors", flavor)
    return tree


class TestOverTheTree:
    """A root and two zones below, each with a host; a server of the root's user."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Tree:
        return a_tree(tmp_path)

    @staticmethod
    def go_on(tree: Tree, agents: dict[str, PlayedAgent]) -> None:
        for _ in range(3):
            tree.settle(3)
            for agent in agents.values():
                agent.converge()
        tree.settle(3)

    def test_a_resized_server_is_unshelved_with_its_flavor_wherever_it_comes(self, tree: Tree) -> None:
        # given two servers of one boot, of which one was resized
        root, agents = tree.nodes["root"], {name: PlayedAgent(tree.nodes[name]) for name in ("a", "b")}
        body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2}}
        made = root.client("member").post("/zones/boot", body).json["reservation_id"]
        self.go_on(tree, agents)
        found = root.client("member").get(f"/servers?reservation_id={made}").json["servers"]
        uuid, other = (one["id"] for one in found)
        for action, status in ((RESIZE, 202), (CONFIRM, 204)):
            assert act(root, uuid, action, user="member").status == status
            self.go_on(tree, agents)
        # when both are shelved, and come back at once, over and over, once with the first zone full
        for number in range(3):
            for change in ("shelve", "unshelve"):
                for one in (uuid, other):
                    assert act(root, one, {change: None}, user="member").status in (202, 204)
                self.go_on(tree, agents)
            if number == 0:
                here = next(name for name, agent in agents.items() if uuid in dict(agent.running))
                host = tree.nodes[here].client().get("/os-services?binary=nova-compute").json["services"][0]
                tree.nodes[here].client().call("PUT", f"/os-services/{host['id']}", {"status": "disabled"})
                tree.poll(2)
        # then each has its own flavor, and the claims are those
        flavors = [root.client().get(f"/servers/{one}").json["server"]["flavor"] for one in (uuid, other)]
        assert [flavor["vcpus"] for flavor in flavors] == [3, 2]
        claimed = {name: used_vcpus(tree.nodes[name]) for name in agents}
        assert sum(sum(used.values()) for used in claimed.values()) == 5
        assert claimed[here] == {f"{here}1": 0}
        lines = [line for agent in agents.values() for line in agent.work()]
        assert {line["uuid"]: line["flavor"]["vcpus"] for line in lines} == {uuid: 3, other: 2}
        nothing_is_wrong(tree)

    def test_a_resize_that_fits_nowhere_below_says_why_above(self, tree: Tree) -> None:
        root, agents = tree.nodes["root"], {name: PlayedAgent(tree.nodes[name]) for name in ("a", "b")}
        root.client().post("/flavors", HUGE)
        made = root.client("member").post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
        uuid = made.json["server"]["id"]
        self.go_on(tree, agents)

        act(root, uuid, {"resize": {"flavorRef": "huge"}}, user="member")
        self.go_on(tree, agents)

        assert last(root, uuid) == ("resize", "error", "resize_no_valid_host")
        server = root.client("member").get(f"/servers/{uuid}").json["server"]
        assert (server["status"], server["flavor"]["original_name"]) == ("ACTIVE", "small")
        assert len([key for agent in agents.values() for key in agent.running]) == 1
        nothing_is_wrong(tree)

    def test_a_resized_server_is_evacuated_with_its_flavor(self, tree: Tree) -> None:
        root, agents = tree.nodes["root"], {name: PlayedAgent(tree.nodes[name]) for name in ("a", "b")}
        made = root.client("member").post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
        uuid = made.json["server"]["id"]
        self.go_on(tree, agents)
        for body in (RESIZE, CONFIRM):
            act(root, uuid, body, user="member")
            self.go_on(tree, agents)
        (here,) = [name for name, agent in agents.items() if agent.running]
        (there,) = set(agents) - {here}
        zone = tree.nodes[here].client()
        host_id = zone.get("/os-hypervisors/detail").json["hypervisors"][0]["id"]

        zone.call("PUT", f"/os-services/{host_id}", {"forced_down": True})
        reply = zone.post(f"/os-services/{host_id}/action", {"evacuate": {"fenced": True}})
        tree.poll(2)
        self.go_on(tree, agents)

        assert reply.status == 202, reply.body
        assert [line["flavor"]["vcpus"] for line in agents[there].work()] == [3]
        assert used_vcpus(tree.nodes[there]) == {f"{there}1": 3}
        assert root.client("member").get(f"/servers/{uuid}").json["server"]["status"] == "ACTIVE"


@pytest.mark.parametrize(("is_done", "flavor", "place"), [(False, "small", 1), (True, "large", 2)])
def test_a_resize_whose_move_is_lost_is_found_and_ends_where_the_server_is(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent, is_done: bool, flavor: str, place: int
) -> None:
    uuid = on_h1(tree, old)
    if is_done:
        resized(tree, node, uuid, old, new)
    else:
        assert act(node, uuid, RESIZE, user="member").status == 202

    sql(node.zone, "DELETE FROM moves")
    found = {one.kind for one in audit.run(node.zone)}
    repair.run(node.zone)

    assert "moves_differ" in found
    assert (shown(node, uuid)[0], flavor_of(node, uuid)) == ("ACTIVE", flavor)
    assert last(node, uuid) == (("resize", "done", "") if is_done else ("resize", "error", "resize_lost"))
    for agent in (old, new):
        agent.converge()
    assert old.running | new.running == {(uuid, place)}
    assert act(node, uuid, {"os-stop": None}, user="member").status == 202
    nothing_is_wrong(tree)


def test_a_resize_whose_move_is_lost_ends_after_one_that_was_reverted(
    tree: Tree, node: Node, old: PlayedAgent, new: PlayedAgent
) -> None:
    uuid = on_h1(tree, old)
    resized(tree, node, uuid, old, new)
    assert act(node, uuid, REVERT, user="member").status == 202
    for agent in (new, old, new, old):
        tree.settle()
        agent.converge()
    assert flavor_of(node, uuid) == "small"
    resized(tree, node, uuid, old, new)

    sql(node.zone, "DELETE FROM moves")
    repair.run(node.zone)

    assert (shown(node, uuid)[0], flavor_of(node, uuid)) == ("ACTIVE", "large")
    assert last(node, uuid) == ("resize", "done", "")
    for agent in (old, new):
        agent.converge()
    nothing_is_wrong(tree)


def test_a_boot_that_gives_up_gives_back_both_places_of_a_resized_server(tmp_path: Path) -> None:
    # Given: of two servers that are wanted together, one is resized before the other zone is heard again
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("h1", vcpus=2)])
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("l1", vcpus=2)])
    tree.poll()
    for flavor in (FLAVOR, LARGE):
        root.client().post("/flavors", flavor)
    tree.network.fault(leaf.url, Dead(path="/confirm"))
    reservation_id = boot(tree, num_instances=2)
    tree.settle(1)
    old, new = PlayedAgent(root), PlayedAgent(root, service="agent-2")
    old.converge()
    ((uuid, _),) = old.running
    add_host(root, "h2", vcpus=3)
    resized(tree, root, uuid, old, new, user="admin")
    assert (states(root, uuid), used_vcpus(root)) == (["parked", "confirmed"], {"h1": 2, "h2": 3})

    # When: that zone has lost its hold and its host, and there is room nowhere else
    tree.clock.advance(60.0)
    tree.step("leaf")
    (host,) = leaf.client().get("/os-hypervisors").json["hypervisors"]
    leaf.client().call("PUT", f"/os-services/{host['id']}", {"status": "disabled"})
    tree.network.heal(leaf.url)
    tree.poll()
    tree.settle()

    # Then
    assert counts(tree, reservation_id) == {"ERROR": 2}
    assert (states(root, uuid), used_vcpus(root)) == (["released", "released"], {"h1": 0, "h2": 0})
    nothing_is_wrong(tree)
