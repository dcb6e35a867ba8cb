"""Limits of a parent: the instances that it has, the holds that it does not confirm, and early cancels."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.builders.one_zone import sql
from tests.builders.parent_calls import (
    a_parent,
    a_spec,
    cancel,
    confirm,
    hold,
    of_builds,
    offered,
    refusal,
    send,
    uuid,
)
from tests.builders.played_agent import PlayedAgent
from tests.builders.rerun import meeting_another_transaction
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.parent import desired
from zonesched.zones.answers import MAX_GENERATION

FAST_S = 3 * 3600.0
SLOTS = 32
"""Instances of the parents' flavor that fit a zone here."""


def a_big_host(name: str) -> Any:
    return a_host(name, vcpus=2 * SLOTS, ram_mb=2**20, disk_gb=2**20)


@built_once
def one_zone(folder: Path, **options: Any) -> Tree:
    tree = Tree(folder)
    tree.add("leaf", hosts_=[a_big_host("leaf-1")], **options)
    return tree


@built_once
def two_zones(folder: Path, **options: Any) -> Tree:
    tree = Tree(folder)
    tree.add("middle", **options)
    tree.add("leaf", parent="middle", hosts_=[a_big_host("leaf-1")])
    tree.poll()
    return tree


def a_leaf(tmp_path: Path, **options: Any) -> tuple[Tree, Node, str]:
    """A zone with 32 slots of two VCPUs, its tree and its parent."""
    tree = one_zone(tmp_path, **options)
    leaf = tree.nodes["leaf"]
    return tree, leaf, a_parent(leaf, "parent-a")


def a_middle(tmp_path: Path, **options: Any) -> tuple[Tree, Node, str]:
    """The same below a zone without hosts, which has the parent."""
    tree = two_zones(tmp_path, **options)
    middle = tree.nodes["middle"]
    return tree, middle, a_parent(middle, "parent-a")


ZONES = pytest.mark.parametrize("zones", [a_leaf, a_middle])


def living(node: Node) -> int:
    statement = "SELECT count(*) FROM instances WHERE status IN ('BUILD', 'ACTIVE', 'UNKNOWN')"
    return int(sql(node.zone, statement)[0][0])


def limits(node: Node, user: str) -> dict[str, Any]:
    """Each limit of the caller; a counted one's use as NAME_used, a rate's use by its name."""
    answer = node.client(user).get("/limits").json["limits"]
    rates = {rate["name"]: rate["limit"][0] for rate in answer["rate"]}
    counted: dict[str, Any] = answer["absolute"]
    return counted | {name: one["value"] - one["remaining"] for name, one in rates.items()}


# -- instances ---------------------------------------------------------------------------------------------


@ZONES
@pytest.mark.parametrize("end", ["cancelled", "expired"])
def test_an_instance_that_was_here_before_counts_again(tmp_path: Path, zones: Any, end: str) -> None:
    # Given: thirty instances that were held once, ten at a time
    tree, node, parent = zones(tmp_path, parent_instances=10)
    rounds: Sequence[Sequence[int]] = [range(10), range(10, 20), range(20, 30)]
    for numbers in rounds:
        assert of_builds(hold(node, parent, numbers), "state") == ["held"] * 10
        if end == "cancelled":
            cancel(node, parent, numbers)
        else:
            tree.clock.advance(60)
        tree.settle(2)

    # When: all come back
    answers = [hold(node, parent, numbers, attempt=2) for numbers in rounds]
    for numbers in rounds:
        confirm(node, parent, numbers, attempt=2)

    # Then
    assert [answer.status for answer in answers] == [202, 429, 429]
    assert refusal(answers[1]) == (429, "parent_instances")
    assert living(node) == 10
    assert limits(node, parent)["parent_instances_used"] == 10


def test_two_processes_of_a_zone_count_together(tmp_path: Path) -> None:
    # Given: a process that has counted, and another one on the same database
    tree, first, parent = a_leaf(tmp_path, parent_instances=10)
    assert hold(first, parent, range(4)).status == 202
    tree.restart("leaf")
    second = tree.nodes["leaf"]

    # When
    answers = [hold(second, parent, range(4, 9)), hold(first, parent, range(9, 11))]
    last = hold(second, parent, range(9, 10))

    # Then
    assert [answer.status for answer in answers] == [202, 429]
    assert (last.status, living(first)) == (202, 10)


def test_calls_at_the_same_time_do_not_exceed_the_limit(tmp_path: Path) -> None:
    # Given: two processes on one database, and entries for eight calls of four instances
    tree, first, parent = a_leaf(tmp_path, parent_instances=10)
    tree.restart("leaf")
    nodes = [first, tree.nodes["leaf"]]
    specs = [a_spec(4, f"22222222-2222-4222-8222-{n:012d}") for n in range(8)]
    entries = [offered(first, parent, spec) for spec in specs]

    # When
    def call(n: int) -> int:
        numbers = range(4 * n, 4 * n + 4)
        return send(nodes[n % 2], parent, specs[n], dict(zip(numbers, entries[n], strict=True))).status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(call, range(8)))

    # Then
    assert sorted(statuses) == [202] * 2 + [429] * 6
    assert living(first) == 8


# -- idle holds --------------------------------------------------------------------------------------------


@pytest.mark.slow
@ZONES
@pytest.mark.parametrize("end", ["cancel", "expire", "delete"])
def test_holds_without_a_confirm_cannot_keep_a_zone_full(tmp_path: Path, zones: Any, end: str) -> None:
    # Given: a parent that takes the whole zone as often and as long as it can
    tree, node, parent = zones(tmp_path, parent_holds=SLOTS)
    member = a_parent(tree.nodes["leaf"], "parent-b")
    step_s, full_s, hour_s = 60, 0, 3600

    # When
    for n in range(hour_s // step_s):
        spec, numbers = a_spec(SLOTS), range(n * SLOTS, (n + 1) * SLOTS)
        if blobs := offered(node, parent, spec):
            send(node, parent, spec, dict(zip(numbers, blobs, strict=False)), hold_s=600.0)
        full_s += step_s * (not offered(tree.nodes["leaf"], member, a_spec(1)))
        tree.clock.advance(step_s)
        held = sql(node.zone, "SELECT uuid FROM instances WHERE status = 'BUILD'")
        if end == "cancel" and held:
            cancel(node, parent, [int(row.uuid[-12:]) for row in held])
        if end == "delete":
            for row in held:
                node.client(parent).delete(f"/servers/{row.uuid}")
        tree.settle(2)

    # Then: it was full for some of the time only
    assert 60 <= full_s <= hour_s // 4


@pytest.mark.slow
@ZONES
def test_a_parent_that_confirms_or_cancels_soon_is_never_refused(tmp_path: Path, zones: Any) -> None:
    # Given: the whole zone again and again, within the seconds of a boot
    tree, node, parent = zones(tmp_path, parent_holds=SLOTS)

    # When
    statuses = []
    for attempt in range(1, 16):
        statuses.append(hold(node, parent, range(SLOTS), attempt=attempt).status)
        tree.clock.advance(1)
        cancel(node, parent, range(SLOTS), attempt=attempt)
        tree.settle(2)
        tree.clock.advance(10)

    # Then
    assert statuses == [202] * 15
    assert of_builds(hold(node, parent, range(SLOTS), attempt=99), "state") == ["held"] * SLOTS
    assert of_builds(confirm(node, parent, range(SLOTS), attempt=99), "state") == ["confirmed"] * SLOTS


def test_a_zone_with_one_slot_admits_its_parent_after_a_lost_hold(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    leaf = tree.add("leaf", hosts_=[a_host("leaf-1", vcpus=2)])
    parent = a_parent(leaf, "parent-a")
    assert of_builds(hold(leaf, parent, [1]), "state") == ["held"]
    tree.clock.advance(31)
    tree.settle(1)

    assert of_builds(hold(leaf, parent, [1], attempt=2), "state") == ["held"]


@pytest.mark.parametrize("end", ["reaped", "cancelled", "confirmed too late", "deleted"])
def test_idle_holds_of_one_parent_refuse_no_other_and_wear_off(tmp_path: Path, end: str) -> None:
    # Given
    tree, leaf, parent = a_leaf(tmp_path)
    other = a_parent(leaf, "parent-b")
    hold(leaf, parent, range(SLOTS), hold_s=600.0)
    tree.clock.advance(120)
    match end:
        case "cancelled":
            cancel(leaf, parent, range(SLOTS))
        case "confirmed too late":
            assert of_builds(confirm(leaf, parent, range(SLOTS)), "state") == ["gone"] * SLOTS
        case "deleted":
            for number in range(SLOTS):
                assert leaf.client(parent).delete(f"/servers/{uuid(number)}").status == 204
    tree.settle(1)

    # When
    refused = hold(leaf, parent, range(SLOTS), attempt=2)

    # Then
    assert refusal(refused) == (429, "parent_idle_percent")
    assert refused.headers["Retry-After"] == "60"
    assert hold(leaf, other, [100]).status == 202
    tree.clock.advance(1000)
    tree.settle(1)
    assert hold(leaf, parent, range(SLOTS), attempt=3).status == 202


def test_holds_that_are_cancelled_at_once_cost_nothing(tmp_path: Path) -> None:
    # Given: a hold takes the whole zone, so that a second of each would soon use up the free minute
    leaf = Tree(tmp_path).add("leaf", hosts_=[a_host("leaf-1", vcpus=2)])
    parent = a_parent(leaf, "parent-a")

    # When
    for attempt in range(1, 63):
        assert hold(leaf, parent, [1], attempt=attempt).status == 202
        cancel(leaf, parent, [1], attempt=attempt)

    # Then
    assert of_builds(hold(leaf, parent, [1], attempt=99), "state") == ["held"]


# -- holds -------------------------------------------------------------------------------------------------


@ZONES
def test_a_parent_holds_as_many_instances_as_it_may(tmp_path: Path, zones: Any) -> None:
    # Given
    tree, node, parent = zones(tmp_path, parent_holds=10)
    first = hold(node, parent, range(8))

    # When
    refused = hold(node, parent, range(8, 11))
    confirm(node, parent, range(8))
    tree.settle(1)

    # Then
    assert (first.status, refusal(refused)) == (202, (429, "parent_holds"))
    assert hold(node, parent, range(8, 18)).status == 202
    assert limits(node, parent)["parent_holds_used"] == 10


def test_calls_at_the_same_time_hold_no_more_than_the_parent_may(tmp_path: Path) -> None:
    # Given: entries for eight calls of four instances
    _, leaf, parent = a_leaf(tmp_path, parent_holds=8)
    specs = [a_spec(4, f"22222222-2222-4222-8222-{n:012d}") for n in range(8)]
    entries = [offered(leaf, parent, spec) for spec in specs]
    start = threading.Barrier(8)

    # When
    def call(n: int) -> int:
        start.wait()
        return send(
            leaf, parent, specs[n], dict(zip(range(4 * n, 4 * n + 4), entries[n], strict=True))
        ).status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(call, range(8)))

    # Then
    assert sorted(statuses) == [202] * 2 + [429] * 6
    assert limits(leaf, parent)["parent_holds_used"] == 8


def test_confirmed_holds_do_not_use_up_the_rate(tmp_path: Path) -> None:
    # Given
    tree, leaf, parent = a_leaf(tmp_path, parent_holds_per_minute=6)

    # When
    for n in range(5):
        assert hold(leaf, parent, range(4 * n, 4 * n + 4)).status == 202
        confirm(leaf, parent, range(4 * n, 4 * n + 4))
    for n in (5, 6):
        assert hold(leaf, parent, range(4 * n, 4 * n + 4)).status == 202
        cancel(leaf, parent, range(4 * n, 4 * n + 4))

    # Then
    assert refusal(hold(leaf, parent, [99])) == (429, "parent_holds_per_minute")
    assert limits(leaf, parent)["parent_holds_per_minute"] >= 6
    tree.clock.advance(60)
    assert hold(leaf, parent, [99]).status == 202


def test_holds_whose_transaction_is_run_again_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, leaf, parent = a_leaf(tmp_path, parent_holds_per_minute=6)
    with meeting_another_transaction(leaf.zone.store, monkeypatch):
        assert hold(leaf, parent, range(4)).status == 202

    answers = [hold(leaf, parent, range(n, n + 4)).status for n in (4, 8)]

    assert answers == [202, 429]


# -- tombstones --------------------------------------------------------------------------------------------


def tombstones(node: Node) -> int:
    return int(sql(node.zone, "SELECT count(*) FROM inbound_builds WHERE number = 0")[0][0])


@ZONES
def test_cancels_of_unknown_attempts_are_bounded_in_number_and_age(tmp_path: Path, zones: Any) -> None:
    # Given
    tree, node, parent = zones(tmp_path, parent_tombstones=20)
    other = a_parent(node, "parent-b")
    assert of_builds(cancel(node, parent, range(15)), "state") == ["gone"] * 15

    # When
    refused = cancel(node, parent, range(15, 30))

    # Then: it is refused whole; repeats of the first ones, and other parents, are not
    assert refusal(refused) == (429, "parent_tombstones")
    assert tombstones(node) == 15
    assert of_builds(cancel(node, parent, range(15)), "state") == ["gone"] * 15
    assert of_builds(cancel(node, other, range(15)), "state") == ["gone"] * 15
    assert limits(node, parent)["parent_tombstones_used"] == 15
    tree.clock.advance(node.zone.conf.build_plan_ttl + node.zone.conf.retry_window + 1)
    tree.settle(1)
    assert tombstones(node) == 0
    assert of_builds(cancel(node, parent, range(15, 30)), "state") == ["gone"] * 15


def test_tombstones_of_a_clock_that_was_fast_fill_no_limit_and_are_kept(tmp_path: Path) -> None:
    # given as many cancels of unknown attempts as may be, by a clock that is three hours fast
    tree, leaf, parent = a_leaf(tmp_path, parent_tombstones=5)
    age_s = leaf.zone.conf.build_plan_ttl + leaf.zone.conf.retry_window + 1
    tree.clock.set_to(tree.clock.now() + FAST_S)
    assert of_builds(cancel(leaf, parent, range(5)), "state") == ["gone"] * 5
    assert refusal(cancel(leaf, parent, [5])) == (429, "parent_tombstones")
    # when it is set right
    tree.clock.set_to(tree.clock.now() - FAST_S)
    tree.settle(1)
    # then the parent may leave as many again, and no more
    assert limits(leaf, parent)["parent_tombstones_used"] == 0
    assert of_builds(cancel(leaf, parent, range(5, 10)), "state") == ["gone"] * 5
    assert refusal(cancel(leaf, parent, [10])) == (429, "parent_tombstones")
    assert limits(leaf, parent)["parent_tombstones_used"] == 5
    # and the first ones stay as long as an entry of their time can be opened
    tree.clock.advance(age_s)
    tree.settle(1)
    assert tombstones(leaf) == 5
    assert of_builds(hold(leaf, parent, range(6)), "state") == ["gone"] * 5 + ["held"]
    tree.clock.advance(FAST_S)
    tree.settle(1)
    assert tombstones(leaf) == 0


def test_builds_that_were_placed_are_known_when_tombstones_of_their_age_are_gone(tmp_path: Path) -> None:
    # Given
    tree, node, parent = a_leaf(tmp_path)
    assert of_builds(hold(node, parent, range(2)), "state") == ["held"] * 2
    assert of_builds(confirm(node, parent, range(2)), "state") == ["confirmed"] * 2
    PlayedAgent(node).converge()
    # When
    tree.clock.advance(node.zone.conf.build_plan_ttl + node.zone.conf.retry_window + 1)
    tree.settle(1)
    # Then
    assert of_builds(confirm(node, parent, range(2)), "state") == ["confirmed"] * 2


@ZONES
def test_a_cancel_that_overtakes_its_hold_wins(tmp_path: Path, zones: Any) -> None:
    _, node, parent = zones(tmp_path, parent_tombstones=20)
    cancel(node, parent, range(3))

    assert of_builds(hold(node, parent, range(5)), "state") == ["gone"] * 3 + ["held"] * 2


def test_builds_that_share_one_entry_leave_no_more_tombstones_than_cancels_do(tmp_path: Path) -> None:
    _, leaf, parent = a_leaf(tmp_path, parent_tombstones=20)
    (blob,) = offered(leaf, parent, a_spec(1))

    refused = send(leaf, parent, a_spec(1), dict.fromkeys(range(30), blob))

    assert refusal(refused) == (429, "parent_tombstones")
    assert (tombstones(leaf), living(leaf)) == (0, 0)


def test_calls_at_the_same_time_leave_no_more_tombstones_than_the_parent_may(tmp_path: Path) -> None:
    # given eight calls of five builds each, which share one entry: four of them come too late
    _, leaf, parent = a_leaf(tmp_path, parent_tombstones=8)
    # Counted once, the holds of calls at the same time do not wait for each other.
    hold(leaf, parent, [99])
    specs = [a_spec(1, f"22222222-2222-4222-8222-{n:012d}") for n in range(8)]
    blobs = [offered(leaf, parent, spec)[0] for spec in specs]
    start = threading.Barrier(8)

    def call(n: int) -> int:
        start.wait()
        return send(leaf, parent, specs[n], dict.fromkeys(range(5 * n, 5 * n + 5), blobs[n])).status

    # when
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(call, range(8)))
    # then
    assert sorted(statuses) == [202] * 2 + [429] * 6
    assert tombstones(leaf) == 8


def test_a_build_whose_entry_another_one_has_used_is_forgotten_in_the_end(tmp_path: Path) -> None:
    # Given two builds of one call that name the same entry
    tree, leaf, parent = a_leaf(tmp_path)
    (blob,) = offered(leaf, parent, a_spec(1))
    answer = send(leaf, parent, a_spec(1), dict.fromkeys(range(2), blob))
    assert sorted(of_builds(answer, "state")) == ["gone", "held"]
    assert tombstones(leaf) == 1
    # When
    tree.clock.advance(leaf.zone.conf.build_plan_ttl + leaf.zone.conf.retry_window + 1)
    tree.settle(1)
    # Then
    assert tombstones(leaf) == 0
    assert sql(leaf.zone, "SELECT count(*) FROM inbound_builds") == [(1,)]


def test_a_parents_generations_refuse_no_report_of_an_agent(tmp_path: Path) -> None:
    # given
    tree = Tree(tmp_path)
    node = tree.add("zone", hosts_=[a_host("h")])
    parent, agent = a_parent(node, "parent"), PlayedAgent(node)
    hold(node, parent, [1, 2])
    confirm(node, parent, [1, 2])
    agent.converge()
    told = {"power": "stopped", "reboots": MAX_GENERATION, "reboot_type": "SOFT"}
    line = {"uuid": uuid(1), "attempt": 1, "generation": MAX_GENERATION, **told}
    too_late = {**line, "reboots": MAX_GENERATION + 1}
    assert node.client(parent).post("/servers/desired", {"servers": [too_late]}).status == 400
    assert node.client(parent).post("/servers/desired", {"servers": [line]}).status == 200
    # when
    hold(node, parent, [3])
    confirm(node, parent, [3])
    agent.converge()
    # then
    shown = {server["id"]: server for server in node.client(parent).get("/servers").json["servers"]}
    assert shown[uuid(3)]["status"] == "ACTIVE"
    assert shown[uuid(1)]["observed"]["generation"] == MAX_GENERATION
    assert shown[uuid(1)]["observed"]["power"] == "stopped"


def test_many_desired_states_are_stored_in_parts_between_which_others_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setattr(desired, "LINES_AT_ONCE", 2)
    _, leaf, parent = a_leaf(tmp_path)
    agent = PlayedAgent(leaf)
    hold(leaf, parent, range(5))
    confirm(leaf, parent, range(5))
    agent.converge()
    told = {"attempt": 1, "generation": 1, "power": "stopped", "reboots": 0, "reboot_type": "SOFT"}
    # when
    answer = leaf.client(parent).post(
        "/servers/desired", {"servers": [{"uuid": uuid(number), **told} for number in range(5)]}
    )
    # then
    assert [line["uuid"] for line in answer.json["servers"]] == [uuid(number) for number in range(5)]
    assert {line["state"] for line in answer.json["servers"]} == {"stored"}
    parts = sql(leaf.zone, "SELECT count(*) FROM instances GROUP BY changed_seq ORDER BY changed_seq")
    assert parts == [(2,), (2,), (1,)]


# -- entries -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [SLOTS - 1, SLOTS])
def test_a_parent_pays_for_the_entries_that_its_page_skips(tmp_path: Path, skip: int) -> None:
    # Given a parent that may have as many entries as its zone may have of the zone's child
    _, middle, parent = a_middle(tmp_path, parent_entries_per_minute=SLOTS)
    select = {"version": 1, "request_spec": spec_to_wire(a_spec(SLOTS)), "page": {"skip": skip, "entries": 1}}

    # When it asks for the last entry, or for none, which its zone can tell only from all of them
    answers = [middle.client(parent).post("/zones/select", select) for _ in range(2)]

    # Then it uses up its own entries, and not all those of the zone, which are for others too
    assert [answer.status for answer in answers] == [200, 429]
    assert refusal(answers[1]) == (429, "parent_entries_per_minute")
