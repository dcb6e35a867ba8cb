"""A child that reports ever-new changes is read within bounds and does not hold up other children."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.builders.boots import FLAVOR, a_building_tree, all_active, boot, counts, the_boot
from tests.builders.scenes import built_once
from tests.builders.sync import ask_all
from tests.builders.tree import Tree, a_host
from zonesched.services import background
from zonesched.services.children import feed_allowance, sync
from zonesched.services.children.changes import apply_changes
from zonesched.services.children.feed_allowance import FREE_LINES, WINDOW_S
from zonesched.services.children.sync import Sync

pytestmark = pytest.mark.once

LINES = 2500


class Changing:
    """A zone whose feed has new instances on every page; `more`: whether it says that there are more."""

    def __init__(self, app: Any, *, more: bool) -> None:
        self._app = app
        self._more = more
        self._numbers = itertools.count()
        self.lines = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ["PATH_INFO"].endswith("/reservations"):
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        number = next(self._numbers)
        line = {"attempt": 1, "status": "ACTIVE", "state": "confirmed", "reason": ""}
        lines = [line | {"uuid": str(UUID(int=number * LINES + n))} for n in range(LINES)]
        self.lines += LINES
        start_response("200 OK", [("Content-Type", "application/json")])
        return [orjson.dumps({"instances": lines, "cursor": f"page-{number}", "more": self._more})]


@built_once
def two_below(folder: Path) -> Tree:
    """root -> liar, honest; no instance in either."""
    tree = Tree(folder)
    root = tree.add("root")
    root.client().post("/flavors", FLAVOR)
    for name in ("liar", "honest"):
        tree.add(name, parent="root", hosts_=[a_host("h1")])
    tree.poll()
    return tree


def a_tree(folder: Path, *, more: bool) -> tuple[Tree, Changing]:
    """Such a tree, in which the one child's feed is another."""
    tree = two_below(folder)
    liar = tree.nodes["liar"]
    feed = Changing(liar.app, more=more)
    tree.network.mount(liar.url, feed)
    tree.network.sent.clear()
    return tree, feed


def asked(tree: Tree, name: str) -> int:
    return sum(sent.url.startswith(tree.nodes[name].url + "/reservations?") for sent in tree.network.sent)


def go_on(tree: Tree, loop: Sync, seconds: float) -> None:
    ends_at = tree.clock.monotonic() + seconds
    while tree.clock.monotonic() < ends_at:
        tree.clock.advance(max(0.01, loop.step()))


@pytest.mark.parametrize("more", [True, False])
def test_ever_new_changes_are_read_up_to_the_allowance(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, more: bool
) -> None:
    tree, feed = a_tree(tmp_path, more=more)
    # A boot that stays unfinished: children are asked often.
    boot(tree, num_instances=1)
    while background.work_on_boots(tree.nodes["root"].zone) == 0.0:
        pass
    loop = Sync(tree.nodes["root"].zone)

    with caplog.at_level(logging.WARNING, "zonesched"):
        go_on(tree, loop, 0.9 * WINDOW_S)

    assert feed.lines <= FREE_LINES + 2 * LINES
    assert sum("liar reports more changes than" in record.message for record in caplog.records) == 1


def test_the_other_children_are_asked_as_often_as_without_it(tmp_path: Path) -> None:
    tree, _ = a_tree(tmp_path, more=True)
    loop = Sync(tree.nodes["root"].zone)

    # Four pages and the one too many, without a pause between them.
    pauses = [loop.step() for _ in range(6)]

    assert asked(tree, "liar") == 5
    assert asked(tree, "honest") == 1
    assert pauses[:4] == [0.0] * 4
    assert pauses[5] > 0.0


def test_it_is_asked_again_after_the_pause(tmp_path: Path) -> None:
    tree, feed = a_tree(tmp_path, more=True)
    loop = Sync(tree.nodes["root"].zone)
    go_on(tree, loop, 10.0)
    read = feed.lines

    go_on(tree, loop, WINDOW_S + 60.0)

    assert feed.lines > read


def test_a_child_that_returns_with_many_changes_is_read_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonesched.services.owners.reservations.PAGE", 1)
    monkeypatch.setattr(feed_allowance, "FREE_LINES", 1)
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)
    all_active(tree)
    ask_all(tree.nodes["region"].zone)
    while ask_all(tree.nodes["region"].zone).behind:
        pass
    tree.clock.advance(3600.0)
    loop = Sync(tree.nodes["root"].zone)

    pauses = []
    while counts(tree, reservation_id) != {"ACTIVE": 12}:
        pauses.append(loop.step())

    assert len(pauses) > 3
    assert pauses[:-1] == [0.0] * (len(pauses) - 1)


def test_a_large_page_is_applied_in_several_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "LINES_AT_ONCE", 5)
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)
    all_active(tree)
    root = tree.nodes["root"].zone
    sizes: list[int] = []

    def noted(zone: Any, child_id: str, items: Any, tx: Any, given_back: Any) -> Any:
        sizes.append(len(items))
        return apply_changes(zone, child_id, items, tx, given_back)

    monkeypatch.setattr(sync, "apply_changes", noted)
    ask_all(tree.nodes["region"].zone)
    ask_all(root)

    assert max(sizes) == 5
    assert counts(tree, reservation_id) == {"ACTIVE": 12}
