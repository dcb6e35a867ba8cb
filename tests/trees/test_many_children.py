"""A zone with many children asks them in turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR, boot
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Replace
from zonesched.services import background
from zonesched.services.children.sync import Sync
from zonesched.store import children
from zonesched.zones import poll_turns

pytestmark = pytest.mark.once

NAMES = [f"leaf-{number}" for number in range(7)]
TURNS = 3
SYNC_S = 30.0
INFO, FEED = "/zones/info", "/reservations?"


@built_once
def a_wide_tree(folder: Path) -> Tree:
    """A root with seven children."""
    tree = Tree(folder)
    tree.add("root")
    for name in NAMES:
        tree.add(name, parent="root")
    tree.poll()
    return tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    tree = a_wide_tree(tmp_path)
    monkeypatch.setattr(poll_turns, "AT_ONCE", TURNS)
    while background.poll_children(tree.nodes["root"].zone) != pause_s(tree):
        pass
    for _ in range(TURNS - 1):
        background.poll_children(tree.nodes["root"].zone)
    return tree


def pause_s(tree: Tree) -> float:
    return float(tree.nodes["root"].zone.conf.zone_db_check_interval) / TURNS


def asked(tree: Tree, path: str) -> list[str]:
    """Names of the children that were asked since the last time, in order."""
    urls = {node.url: name for name, node in tree.nodes.items()}
    found = [urls[sent.url.split(path)[0]] for sent in tree.network.sent if path in sent.url]
    tree.network.sent.clear()
    return sorted(found)


def test_each_child_is_polled_once_in_a_round_of_turns(tree: Tree) -> None:
    asked(tree, INFO)

    turns = []
    for _ in range(TURNS):
        assert background.poll_children(tree.nodes["root"].zone) == pause_s(tree)
        turns.append(asked(tree, INFO))

    assert sorted(name for turn in turns for name in turn) == NAMES
    assert max(len(turn) for turn in turns) == 3


def test_one_that_is_not_ready_is_polled_in_the_first_turn(tree: Tree) -> None:
    tree.network.fault(tree.nodes["leaf-1"].url, Replace(status=500))
    failures = tree.nodes["root"].zone.conf.zone_failures_to_offline
    for _ in range(failures * TURNS):
        background.poll_children(tree.nodes["root"].zone)
    asked(tree, INFO)

    turns = []
    for _ in range(TURNS):
        background.poll_children(tree.nodes["root"].zone)
        turns.append(asked(tree, INFO))

    assert sorted(name for turn in turns for name in turn) == NAMES
    assert [("leaf-1" in turn) for turn in turns] == [True, False, False]
    assert sum(known.last_error != "" for known in tree.nodes["root"].zone.children.snapshot()) == 1


def test_children_at_rest_are_asked_for_changes_in_turns_over_the_round(tree: Tree) -> None:
    loop, began_at = Sync(tree.nodes["root"].zone), tree.clock.monotonic()
    loop.step()
    tree.clock.advance(SYNC_S)
    asked(tree, FEED)

    asked_at = dict[float, list[str]]()
    while tree.clock.monotonic() < began_at + 3 * SYNC_S - 1e-6:
        at_s, pause_s = tree.clock.monotonic() - began_at, loop.step()
        if names := asked(tree, FEED):
            asked_at[round(at_s, 3)] = names
        assert 0.0 < pause_s <= tree.nodes["root"].zone.conf.boot_poll_interval
        tree.clock.advance(pause_s)

    assert list(asked_at) == [30.0, 40.0, 50.0, 60.0, 70.0, 80.0]
    turns = list(asked_at.values())
    assert turns[:3] == turns[3:]
    assert sorted(name for turn in turns[:3] for name in turn) == NAMES


def test_all_are_asked_for_changes_at_once_while_something_is_built(tree: Tree) -> None:
    root = tree.nodes["root"]
    tree.register("leaf-3", [a_host("h1")])
    root.client().post("/flavors", FLAVOR)
    loop = Sync(root.zone)
    for _ in range(2):
        loop.step()
        tree.clock.advance(SYNC_S)
    tree.poll()
    boot(tree, num_instances=1)
    tree.settle(1)
    tree.clock.advance(1.0)
    asked(tree, FEED)

    loop.step()

    assert asked(tree, FEED) == NAMES


def test_a_child_that_another_process_has_removed_is_polled_until_the_next_round(tree: Tree) -> None:
    # given
    root = tree.nodes["root"].zone
    removed = next(row for row in root.store.read(children.read_all) if row.name == "leaf-6")
    root.store.write(lambda tx: children.delete(tx, removed.id))
    # when
    for _ in range(TURNS):
        background.poll_children(root)
    # then
    asked(tree, INFO)
    for _ in range(TURNS):
        background.poll_children(root)
    assert set(asked(tree, INFO)) == set(NAMES[:-1])
