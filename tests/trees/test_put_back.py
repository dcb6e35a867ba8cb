"""A zone whose database is put back from an older copy: its parent reads it anew, and misses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import a_building_tree, boot, counts, report_all, the_boot
from tests.builders.migrated import copy_database, replace_database
from tests.builders.one_zone import sql
from tests.builders.postgresql import SERVER
from tests.builders.sync import ask_all
from tests.builders.tree import Client, Tree, a_host
from zonesched.model.agent_instances import AgentState
from zonesched.store import identity


def copy_of(tree: Tree, name: str, mark: str = "copy") -> Path:
    """A copy of a zone's database while it runs, as docs/operate.md has it."""
    path = tree.folder / f"{name}-{mark}.sqlite"
    copy_database(tree.folder / f"{name}.sqlite", path)
    return path


def swap(tree: Tree, name: str, copy: Path) -> None:
    """A zone's database becomes the copy."""
    tree.nodes[name].zone.store.close()
    replace_database(tree.folder / f"{name}.sqlite", copy)


def put_back(tree: Tree, name: str, copy: Path) -> None:
    """The zone stops, its database becomes the copy, and it starts again."""
    swap(tree, name, copy)
    tree.restart(name)


def last_change(tree: Tree, name: str) -> int:
    return tree.nodes[name].zone.store.read(identity.last_change)


def do_something(tree: Tree, name: str, until: int) -> None:
    """Let a zone count up to at least this change, with nothing that concerns its parent."""
    number = 0
    while last_change(tree, name) <= until:
        number += 1
        tree.register(name, [a_host(f"new-{number}", vcpus=1)])


def a_parents_view(tree: Tree, name: str) -> Client:
    return tree.nodes[name].client("parent-root")


@pytest.mark.parametrize("passed", [False, True], ids=["behind", "past"])
def test_what_changes_after_a_copy_was_put_back_reaches_the_parent(tmp_path: Path, passed: bool) -> None:
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)
    below = len(sql(tree.nodes["leaf-b"].zone, "select uuid from instances"))
    copy = copy_of(tree, "leaf-b")
    report_all(tree, "leaf-b", AgentState.ACTIVE)
    do_something(tree, "leaf-b", until=last_change(tree, "leaf-b") + 10)
    report_all(tree, "leaf-b", AgentState.ACTIVE)
    boot(tree)
    tree.settle()
    read_to = last_change(tree, "leaf-b")
    assert counts(tree, reservation_id)["ACTIVE"] == below > 0

    put_back(tree, "leaf-b", copy)
    report_all(tree, "leaf-b", AgentState.GONE)
    # PostgreSQL goes on counting, also for a copy on the same server.
    assert SERVER or last_change(tree, "leaf-b") < read_to
    if passed:
        do_something(tree, "leaf-b", until=read_to)
    tree.poll()
    tree.clock.advance(60)
    ask_all(tree.nodes["root"].zone)

    assert counts(tree, reservation_id)["ERROR"] == below


def test_a_zone_that_only_starts_again_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    first = a_parents_view(tree, "leaf-b").get("/reservations?cursor=").json

    tree.restart("leaf-b")
    tree.restart("leaf-b")
    again = a_parents_view(tree, "leaf-b").get(f"/reservations?cursor={first['cursor']}")

    assert len(first["instances"]) > 0
    assert (again.status, again.json["instances"]) == (200, [])


def test_a_place_that_was_read_before_the_copy_was_made_is_good_after_it_is_put_back(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    first = a_parents_view(tree, "leaf-b").get("/reservations?cursor=").json
    copy = copy_of(tree, "leaf-b")
    do_something(tree, "leaf-b", until=last_change(tree, "leaf-b") + 3)

    put_back(tree, "leaf-b", copy)
    report_all(tree, "leaf-b", AgentState.GONE)
    again = a_parents_view(tree, "leaf-b").get(f"/reservations?cursor={first['cursor']}").json

    assert {line["status"] for line in again["instances"]} == {"ERROR"}
    assert len(again["instances"]) == len(first["instances"])


def test_two_histories_after_one_copy_are_told_apart(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    read = a_parents_view(tree, "leaf-b").get
    copies = [copy_of(tree, "leaf-b", mark) for mark in ("first", "second")]
    cursors = []
    for copy in copies:
        put_back(tree, "leaf-b", copy)
        read = a_parents_view(tree, "leaf-b").get
        report_all(tree, "leaf-b", AgentState.ACTIVE)
        cursors.append(read("/reservations?cursor=").json["cursor"])

    refused = read(f"/reservations?cursor={cursors[0]}")

    assert (refused.status, refused.json["badRequest"]["error_code"]) == (400, "cursor_invalid")
    assert read(f"/reservations?cursor={cursors[1]}").status == 200


@pytest.mark.sqlite
def test_a_place_ahead_of_the_count_is_refused_also_by_a_zone_that_was_not_started_again(
    tmp_path: Path,
) -> None:
    tree = a_building_tree(tmp_path)
    copy = copy_of(tree, "leaf-b")
    report_all(tree, "leaf-b", AgentState.ACTIVE)
    read = a_parents_view(tree, "leaf-b").get
    ahead = read("/reservations?cursor=").json["cursor"]

    swap(tree, "leaf-b", copy)

    assert read(f"/reservations?cursor={ahead}").json["badRequest"]["error_code"] == "cursor_invalid"
