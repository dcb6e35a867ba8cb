"""Uuids of instances are per caller: one that another caller's instance has can be built all the same."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.one_zone import sql
from tests.builders.parent_calls import (
    RESERVATION,
    a_parent,
    a_spec,
    cancel,
    confirm,
    hold,
    of_builds,
    offered,
    send,
    uuid,
)
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.services.audit import audit, audit_edges
from zonesched.services.placing.pruning import Pruning

HOSTS = ("leaf-1", "leaf-2")


@built_once
def one_zone(folder: Path, **options: Any) -> Tree:
    tree = Tree(folder)
    tree.add("leaf", hosts_=[a_host(name) for name in HOSTS], **options)
    return tree


@built_once
def two_zones(folder: Path, **options: Any) -> Tree:
    tree = Tree(folder)
    tree.add("middle", **options)
    tree.add("leaf", parent="middle", hosts_=[a_host(name) for name in HOSTS], **options)
    tree.poll()
    return tree


def a_leaf(tmp_path: Path, **options: Any) -> tuple[Tree, Node, str]:
    """A zone with two hosts, and its parent."""
    tree = one_zone(tmp_path, **options)
    leaf = tree.nodes["leaf"]
    return tree, leaf, a_parent(leaf, "parent-a")


def a_middle(tmp_path: Path, **options: Any) -> tuple[Tree, Node, str]:
    """The same below a zone without hosts, which has the parent."""
    tree = two_zones(tmp_path, **options)
    middle = tree.nodes["middle"]
    return tree, middle, a_parent(middle, "parent-a")


ZONES = pytest.mark.parametrize("zones", [a_leaf, a_middle])


def taken_in_leaf(tree: Tree, numbers: Sequence[int]) -> str:
    """Another parent of the leaf has confirmed instances of these numbers; its name."""
    leaf = tree.nodes["leaf"]
    other = a_parent(leaf, "parent-b")
    assert of_builds(hold(leaf, other, numbers), "state") == ["held"] * len(numbers)
    assert of_builds(confirm(leaf, other, numbers), "state") == ["confirmed"] * len(numbers)
    return other


def in_feed(node: Node, user: str) -> dict[str, str]:
    lines = node.client(user).get("/reservations?cursor=").json["instances"]
    return {line["uuid"]: line["state"] for line in lines}


def listed(node: Node, user: str, path: str = "/servers") -> list[str]:
    return sorted(server["id"] for server in node.client(user).get(path).json["servers"])


def inconsistencies(tree: Tree) -> list[Any]:
    return [
        found
        for node in tree.nodes.values()
        for found in (*audit.run(node.zone), *audit_edges.across_edges(node.zone))
    ]


@ZONES
def test_a_taken_uuid_is_held_confirmed_shown_and_deleted_as_any_other(tmp_path: Path, zones: Any) -> None:
    # Given
    tree, node, parent = zones(tmp_path)
    other = taken_in_leaf(tree, [1, 2])
    numbers, own = [1, 2, 3], [uuid(1), uuid(2), uuid(3)]

    # When
    held = hold(node, parent, numbers)
    repeated = confirm(node, parent, numbers)
    tree.settle(2)

    # Then: the parent sees its own uuids everywhere
    assert (of_builds(held, "uuid"), of_builds(held, "state")) == (own, ["held"] * 3)
    assert (of_builds(repeated, "uuid"), of_builds(repeated, "state")) == (own, ["confirmed"] * 3)
    assert of_builds(confirm(node, parent, numbers), "state") == ["confirmed"] * 3
    assert in_feed(node, parent) == dict.fromkeys(own, "confirmed")
    assert listed(node, parent) == own
    shown = node.client(parent).get(f"/servers/{uuid(1)}").json["server"]
    assert (shown["id"], shown["status"]) == (uuid(1), "BUILD")
    boot = node.client(parent).get(f"/reservations/{RESERVATION}").json["reservation"]
    assert sorted(one["uuid"] for one in boot["instances"]) == own
    assert inconsistencies(tree) == []

    # When
    assert node.client(parent).delete(f"/servers/{uuid(1)}").status == 204
    tree.settle(2)

    # Then: the other caller's instances are as they were
    assert listed(node, parent) == [uuid(2), uuid(3)]
    assert node.client(parent).get(f"/servers/{uuid(1)}").status == 404
    leaf = tree.nodes["leaf"]
    assert listed(leaf, other) == [uuid(1), uuid(2)]
    assert sum(row.used for row in sql(leaf.zone, "SELECT used FROM inventories")) == 4 * (2 + 2048 + 10)
    assert inconsistencies(tree) == []


@ZONES
def test_a_taken_uuid_is_cancelled_and_held_again(tmp_path: Path, zones: Any) -> None:
    # Given
    tree, node, parent = zones(tmp_path)
    other = taken_in_leaf(tree, [1])
    hold(node, parent, [1])

    # When
    cancel(node, parent, [1])
    tree.settle(2)
    again = hold(node, parent, [1], attempt=2)
    late = hold(node, parent, [1], attempt=1)

    # Then
    assert (of_builds(again, "uuid"), of_builds(again, "state")) == ([uuid(1)], ["held"])
    assert of_builds(late, "state") == ["gone"]
    assert listed(tree.nodes["leaf"], other) == [uuid(1)]


@ZONES
def test_a_cancel_that_came_before_the_uuid_was_taken_still_wins(tmp_path: Path, zones: Any) -> None:
    # Given: attempt 1 was cancelled, and the uuid then taken
    tree, node, parent = zones(tmp_path)
    assert of_builds(cancel(node, parent, [1]), "state") == ["gone"]
    taken_in_leaf(tree, [1])
    assert of_builds(hold(node, parent, [1], attempt=2), "state") == ["held"]

    # When: its build comes late
    late = hold(node, parent, [1], attempt=1)

    # Then
    assert (of_builds(late, "uuid"), of_builds(late, "state")) == ([uuid(1)], ["gone"])
    assert of_builds(confirm(node, parent, [1], attempt=2), "state") == ["confirmed"]


@ZONES
def test_lists_go_on_after_an_own_uuid(tmp_path: Path, zones: Any) -> None:
    tree, node, parent = zones(tmp_path)
    taken_in_leaf(tree, range(5))
    hold(node, parent, range(5))
    confirm(node, parent, range(5))

    found: list[str] = []
    page = node.client(parent).get("/servers?limit=2").json
    while page["servers"]:
        found += [server["id"] for server in page["servers"]]
        page = node.client(parent).get(f"/servers?limit=2&marker={found[-1]}").json

    assert sorted(found) == [uuid(n) for n in range(5)]


@ZONES
def test_a_hint_names_the_parents_own_instance(tmp_path: Path, zones: Any) -> None:
    # Given: the uuid that the hint names is the other caller's on one host, the parent's on another
    tree, node, parent = zones(tmp_path)
    leaf = tree.nodes["leaf"]
    other = taken_in_leaf(tree, [1])
    hold(node, parent, [1])
    confirm(node, parent, [1])
    tree.settle(2)
    host_of = {
        row.caller_id: row.host_id for row in sql(leaf.zone, "SELECT caller_id, host_id FROM placements")
    }
    assert len(set(host_of.values())) == 2

    # When
    spec = replace(a_spec(1, "44444444-4444-4444-8444-444444444444"), hints={"same_host": (uuid(1),)})
    (blob,) = offered(node, parent, spec)
    assert of_builds(send(node, parent, spec, {7: blob}), "state") == ["held"]

    # Then
    (mine,) = sql(leaf.zone, "SELECT caller_id, host_id FROM placements WHERE uuid = :uuid", uuid=uuid(7))
    (others,) = sql(leaf.zone, "SELECT id FROM users WHERE name = :name", name=other)
    assert mine.caller_id != others.id
    assert mine.host_id == host_of[mine.caller_id]


def test_an_audit_reports_the_parents_own_uuid(tmp_path: Path) -> None:
    # Given
    tree, leaf, parent = a_leaf(tmp_path)
    taken_in_leaf(tree, [1])
    hold(leaf, parent, [1])
    confirm(leaf, parent, [1])

    # When
    sql(leaf.zone, "UPDATE placements SET state = 'gone' WHERE uuid != :uuid", uuid=uuid(1))

    # Then
    answer = leaf.client(parent).get("/audit?budget_s=10")
    assert answer.status == 200, answer.body
    found = answer.json["inconsistencies"]
    assert {line["id"] for line in found} == {uuid(1)}


@ZONES
def test_a_desired_state_is_that_of_the_parents_own_instance(tmp_path: Path, zones: Any) -> None:
    # Given
    tree, node, parent = zones(tmp_path)
    taken_in_leaf(tree, [1])
    hold(node, parent, [1])
    confirm(node, parent, [1])
    for one in tree.nodes.values():
        sql(one.zone, "UPDATE instances SET status = 'ACTIVE'")

    # When
    desired = {"generation": 1, "power": "stopped", "reboots": 0, "reboot_type": "SOFT"}
    told = [{"uuid": uuid(1), "attempt": 1, **desired}]
    answer = node.client(parent).post("/servers/desired", {"servers": told})
    tree.settle(2)

    # Then
    assert answer.status == 200, answer.body
    (line,) = answer.json["servers"]
    assert (line["uuid"], line["state"], line["generation"]) == (uuid(1), "stored", 1)
    (stored,) = sql(tree.nodes["leaf"].zone, "SELECT uuid FROM instance_states")
    assert stored.uuid != uuid(1)


def test_an_alias_goes_with_its_instance(tmp_path: Path) -> None:
    # Given
    tree, leaf, parent = a_leaf(tmp_path, ended_retention=60.0)
    taken_in_leaf(tree, [1])
    hold(leaf, parent, [1])
    cancel(leaf, parent, [1])
    assert len(sql(leaf.zone, "SELECT * FROM aliases")) == 1

    # When
    tree.clock.advance(2 * 3600)
    Pruning(leaf.zone).step()

    # Then
    assert sql(leaf.zone, "SELECT * FROM aliases") == []
    assert of_builds(hold(leaf, parent, [1], attempt=2), "state") == ["held"]


def test_callers_that_send_one_uuid_at_the_same_time_all_build(tmp_path: Path) -> None:
    # Given: entries for the same uuids, each of another parent
    _, leaf, _ = a_leaf(tmp_path)
    parents = [a_parent(leaf, f"parent-{n}") for n in range(6)]
    entries = {user: offered(leaf, user, a_spec(2)) for user in parents}

    # When
    def call(user: str) -> list[str]:
        return of_builds(send(leaf, user, a_spec(2), dict(enumerate(entries[user]))), "state")

    with ThreadPoolExecutor(6) as pool:
        states = list(pool.map(call, parents))

    # Then
    assert states == [["held"] * 2] * 6
    for user in parents:
        assert of_builds(confirm(leaf, user, [0, 1]), "state") == ["confirmed"] * 2
        assert listed(leaf, user) == [uuid(0), uuid(1)]
