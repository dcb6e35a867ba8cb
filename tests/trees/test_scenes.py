"""Trees that are built once: each copy is as good as one that was built for its test alone."""

from __future__ import annotations

from pathlib import Path

from tests.builders.boots import FLAVOR, boot, counts
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from zonesched.zones.child import Ready


@built_once
def a_tree(folder: Path) -> Tree:
    """A root over a leaf with a host."""
    tree = Tree(folder)
    tree.add("root").client().post("/flavors", FLAVOR)
    tree.add("leaf", parent="root", hosts_=[a_host("h1")])
    tree.poll()
    return tree


def test_a_tree_is_built_once_for_the_same_arguments(tmp_path: Path) -> None:
    built: list[tuple[str, int]] = []

    @built_once
    def a_zone(folder: Path, name: str, *, vcpus: int = 16) -> Tree:
        built.append((name, vcpus))
        tree = Tree(folder)
        tree.add(name, hosts_=[a_host("h1", vcpus=vcpus)])
        return tree

    for number in range(2):
        assert list(a_zone(tmp_path / f"a{number}", "a").nodes) == ["a"]
        assert list(a_zone(tmp_path / f"b{number}", "b").nodes) == ["b"]
        assert list(a_zone(tmp_path / f"small{number}", "a", vcpus=8).nodes) == ["a"]

    assert built == [("a", 16), ("b", 16), ("a", 8)]


def test_copies_know_their_children_and_have_all_that_was_built(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    (known,) = tree.nodes["root"].zone.children.snapshot()

    reservation_id = boot(tree, num_instances=2)
    tree.settle()

    assert isinstance(known.status, Ready)
    assert counts(tree, reservation_id) == {"BUILD": 2}


def test_what_is_done_to_one_copy_is_not_in_the_next(tmp_path: Path) -> None:
    first = a_tree(tmp_path / "first")
    began_at = first.clock.now()
    boot(first)
    first.settle()
    first.clock.advance(60)
    first.nodes["leaf"].secrets["admin"] = "another"
    first.nodes["leaf"].zone.conf.set_override("select_page", 77)

    second = a_tree(tmp_path / "second")

    assert second.clock.now() == began_at
    assert second.nodes["leaf"].client().get("/servers").json == {"servers": []}
    assert second.nodes["leaf"].zone.conf.select_page != 77
    assert second.nodes["root"].client().get("/reservations").json == {"reservations": []}


def test_copies_go_on_alike(tmp_path: Path) -> None:
    ids = [boot(a_tree(tmp_path / name)) for name in ("first", "second")]

    assert ids[0] == ids[1]
