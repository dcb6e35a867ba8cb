"""The feed of a parent: the order of changes over pages tells nothing, and no change is missed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.builders.one_zone import sql
from tests.builders.parent_calls import a_parent, a_spec, confirm, hold, of_builds, offered, send, uuid
from tests.builders.tree import Node, Tree, a_host
from zonesched.services.owners import reservations
from zonesched.store import feed


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "PAGE", 2)


def a_page(node: Node, user: str, cursor: str) -> tuple[list[tuple[str, str]], str, bool]:
    """A page of the feed: uuid and status of each line, the next cursor, and whether there is more."""
    answer = node.client(user).get(f"/reservations?cursor={cursor}")
    assert answer.status == 200, answer.body
    lines = [(line["uuid"], line["status"]) for line in answer.json["instances"]]
    return lines, answer.json["cursor"], answer.json["more"]


def all_pages(node: Node, user: str, cursor: str = "") -> list[list[tuple[str, str]]]:
    pages, more = [], True
    while more:
        lines, cursor, more = a_page(node, user, cursor)
        pages.append(lines)
    return pages


def uuids(pages: list[list[tuple[str, str]]]) -> list[str]:
    return [line[0] for page in pages for line in page]


def test_pages_do_not_group_instances_by_the_zone_that_holds_them(tmp_path: Path) -> None:
    # Given: instances of two zones below, those of each confirmed and deleted one after the other
    tree = Tree(tmp_path)
    middle = tree.add("middle")
    for name in ("left", "right"):
        tree.add(name, parent="middle", hosts_=[a_host(f"{name}-1", vcpus=8)])
    tree.poll()
    parent, spec = a_parent(middle, "parent-a"), a_spec(8)
    send(middle, parent, spec, dict(enumerate(offered(middle, parent, spec))))
    of_child: dict[str, list[int]] = {}
    for row in sql(middle.zone, "SELECT child_id, uuid FROM placements ORDER BY uuid DESC"):
        of_child.setdefault(row.child_id, []).append(int(row.uuid[-12:]))
    assert [len(numbers) for numbers in of_child.values()] == [4, 4]
    for numbers in of_child.values():
        for number in numbers:
            assert of_builds(confirm(middle, parent, [number]), "state") == ["confirmed"]
            assert middle.client(parent).delete(f"/servers/{uuid(number)}").status == 204

    # When
    pages = all_pages(middle, parent)

    # Then
    assert [len(page) for page in pages] == [2, 2, 2, 2]
    assert uuids(pages) == [uuid(number) for number in range(8)]


def test_a_list_says_nothing_of_when_instances_have_changed(tmp_path: Path) -> None:
    # given instances that have changed one after the other, in an order that is not that of their uuids
    tree = Tree(tmp_path)
    leaf = tree.add("leaf", hosts_=[a_host("leaf-1", vcpus=64, ram_mb=2**20)])
    parent = a_parent(leaf, "parent-a")
    hold(leaf, parent, list(range(4)))
    plain = leaf.client(parent).get("/servers").json["servers"]
    for number in (2, 0, 3, 1):
        tree.clock.advance(2.0)
        assert of_builds(confirm(leaf, parent, [number]), "state") == ["confirmed"]

    # when their parent asks for them by the times of their changes
    queries = [
        "sort_key=updated_at",
        "sort_key=updated_at&sort_dir=asc",
        "changes-since=2023-11-14T22:13:25Z",
    ]
    lists = [leaf.client(parent).get(f"/servers?{query}").json["servers"] for query in queries]

    # then the lists are those without, and have no times
    for found in lists:
        assert [one["id"] for one in found] == [one["id"] for one in plain]
        assert {key for one in found for key in one}.isdisjoint({"created", "updated"})


@pytest.mark.parametrize(
    ("status", "listed"),
    [("MIGRATING", 0), ("MIGRATING&status=ACTIVE", 0), ("BUILD&status=RESCUE", 2), ("", 2)],
)
def test_a_parents_list_has_none_of_a_status_that_no_server_has(
    tmp_path: Path, status: str, listed: int
) -> None:
    leaf = Tree(tmp_path).add("leaf", hosts_=[a_host("leaf-1", vcpus=64, ram_mb=2**20)])
    parent = a_parent(leaf, "parent-a")
    hold(leaf, parent, list(range(2)))

    assert len(leaf.client(parent).get(f"/servers?status={status}").json["servers"]) == listed


def a_leaf(tmp_path: Path, instances: int) -> tuple[Node, str]:
    """A zone with a parent's instances, all confirmed."""
    leaf = Tree(tmp_path).add("leaf", hosts_=[a_host("leaf-1", vcpus=64, ram_mb=2**20)])
    parent = a_parent(leaf, "parent-a")
    numbers = list(range(instances))
    assert of_builds(hold(leaf, parent, numbers), "state") == ["held"] * instances
    assert of_builds(confirm(leaf, parent, numbers), "state") == ["confirmed"] * instances
    return leaf, parent


def test_an_instance_that_changes_behind_the_reader_is_reported_again(tmp_path: Path) -> None:
    # Given: a reader that has passed the first instances
    leaf, parent = a_leaf(tmp_path, 6)
    first, cursor, _ = a_page(leaf, parent, "")

    # When: one that was read and one that was not are deleted
    for number in (0, 5):
        leaf.client(parent).delete(f"/servers/{uuid(number)}")

    # Then
    assert uuids([first]) == [uuid(0), uuid(1)]
    later = all_pages(leaf, parent, cursor)
    assert uuids(later) == [uuid(2), uuid(3), uuid(4), uuid(0), uuid(5)]


def test_a_rest_that_has_changed_again_is_no_empty_page(tmp_path: Path) -> None:
    leaf, parent = a_leaf(tmp_path, 3)
    _, cursor, more = a_page(leaf, parent, "")
    leaf.client(parent).delete(f"/servers/{uuid(2)}")

    lines, reached, further = a_page(leaf, parent, cursor)

    assert (more, lines, further) == (True, [(uuid(2), "DELETED")], False)
    assert a_page(leaf, parent, reached) == ([], reached, False)


def test_a_window_ends_after_its_number_of_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given: instances that change in an order that is not that of their uuids
    leaf, parent = a_leaf(tmp_path, 5)
    for number in (4, 3, 2, 1, 0):
        leaf.client(parent).delete(f"/servers/{uuid(number)}")

    # When
    monkeypatch.setattr(feed, "WINDOW", 3)

    # Then
    assert uuids(all_pages(leaf, parent)) == [uuid(n) for n in (2, 3, 4, 0, 1)]


@pytest.mark.parametrize("seed", range(8))
def test_a_reader_misses_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    # Given
    monkeypatch.setattr(feed, "WINDOW", 4)
    leaf, parent = a_leaf(tmp_path, 12)
    draw = random.Random(seed)
    living = list(range(12))
    draw.shuffle(living)
    known: dict[str, str] = {}
    cursor, more = "", True

    # When: instances are deleted while the feed is read
    while more or living:
        for number in [living.pop() for _ in range(min(len(living), draw.randrange(4)))]:
            leaf.client(parent).delete(f"/servers/{uuid(number)}")
        lines, cursor, more = a_page(leaf, parent, cursor)
        known.update(lines)

    # Then
    assert known == {uuid(number): "DELETED" for number in range(12)}
