"""The audit of a child that lies ends in time, with bounded memory, and costs no other child its audit."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import orjson
import pytest

from tests.builders.audited_tree import FLAVOR, a_booted_tree, left, plant, root_of
from tests.builders.timed_network import SideBySide, TimedNetwork, Timeline
from tests.builders.tree import Tree, a_host
from zonesched.errors import CallerGone
from zonesched.model.caller import Caller, Role
from zonesched.services.audit import audit_edges, audit_tree, repair
from zonesched.services.audit.audit_edges import MIN_LIMIT_S, across_edges
from zonesched.store import children

pytestmark = pytest.mark.once

MIB = 2**20
LINES = 1000


class EndlessFeed:
    """The feed of a zone that never ends from the cursor `begins_at` on: every page has new instances."""

    def __init__(self, app: Any, begins_at: str = "") -> None:
        self._app = app
        self._begins_at = begins_at
        self.pages = itertools.count()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        cursor = parse_qs(environ["QUERY_STRING"]).get("cursor", [""])[0]
        is_feed = environ["PATH_INFO"].endswith("/reservations")
        if not is_feed or not (cursor == self._begins_at or cursor.startswith("page-")):
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        number = next(self.pages)
        line = {"attempt": 1, "status": "ACTIVE", "state": "confirmed", "reason": ""}
        lines = [line | {"uuid": str(UUID(int=number * LINES + n))} for n in range(LINES)]
        start_response("200 OK", [("Content-Type", "application/json")])
        return [orjson.dumps({"instances": lines, "cursor": f"page-{number}", "more": True})]


def cursor_of(tree: Tree) -> str:
    zone = tree.nodes["root"].zone
    return zone.store.read(lambda tx: next(iter(children.cursors(tx).values()), ""))


@pytest.mark.slow
@pytest.mark.parametrize("begins", ["everything", "the changes since the last sync"])
def test_a_feed_without_end_takes_no_more_memory_than_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    monkeypatch.setattr(audit_edges, "MAX_UNKNOWN", 20 * LINES)
    monkeypatch.setattr(audit_edges, "MAX_FOUND", 100)
    tree = a_booted_tree(tmp_path)
    leaf = tree.nodes["leaf"]
    feed = EndlessFeed(leaf.app, "" if begins == "everything" else cursor_of(tree))
    tree.network.mount(leaf.url, feed)

    tracemalloc.start()
    (found,) = across_edges(root_of(tree))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (found.kind, found.detail) == ("child_not_compared", "child_invalid_answer")
    assert next(feed.pages) * LINES >= audit_edges.MAX_UNKNOWN
    assert peak < 8 * MIB


def test_more_inconsistencies_than_an_audit_keeps_are_cut_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_edges, "MAX_FOUND", 3)
    monkeypatch.setattr(audit_edges, "MIN_FOUND", 3)
    tree = a_booted_tree(tmp_path, count=5)
    plant(tree, "leaf", "update instances set status = 'ACTIVE'")

    found = [(one.kind, one.detail) for one in across_edges(root_of(tree))]

    assert found == [
        ("child_not_compared", "too_many_inconsistencies"),
        *[("status_differs", "BUILD here, ACTIVE in the child")] * 3,
    ]


def test_missing_instances_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_edges, "MAX_FOUND", 3)
    monkeypatch.setattr(audit_edges, "MIN_FOUND", 3)
    tree = a_booted_tree(tmp_path, count=5)
    plant(tree, "leaf", "delete from inbound_builds")

    kinds = [one.kind for one in across_edges(root_of(tree))]

    assert kinds == [*["child_lacks_instance"] * 3, "child_not_compared"]


def test_repairs_go_on_where_the_last_one_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_edges, "MAX_FOUND", 3)
    monkeypatch.setattr(audit_edges, "MIN_FOUND", 3)
    tree = a_booted_tree(tmp_path, count=5)
    plant(tree, "leaf", "update instances set status = 'ACTIVE'")
    root = root_of(tree)

    counts = [len(left(repair.run(root))) for _ in range(2)]

    assert counts == [1, 0]
    assert across_edges(root) == []


def a_slow_tree(folder: Path) -> tuple[Tree, Timeline]:
    """root -> liar (whose feed never ends, 9 s a page), honest; with instances in both."""
    clock = Timeline()
    network = TimedNetwork(clock)
    tree = Tree(folder, clock, network=network, executor=SideBySide(clock))
    root = tree.add("root")
    for name in ("liar", "honest"):
        tree.add(name, parent="root", hosts_=[a_host("h1", vcpus=4)])
    tree.poll()
    root.client().post("/flavors", FLAVOR)
    root.client().post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 4}})
    tree.settle()
    liar, honest = tree.nodes["liar"], tree.nodes["honest"]
    network.mount(liar.url, EndlessFeed(liar.app))
    network.takes[liar.url] = 9.0
    plant(tree, honest.name, "update instances set status = 'ACTIVE'")
    return tree, clock


def test_an_operators_audit_ends_and_compares_the_other_children(tmp_path: Path) -> None:
    tree, clock = a_slow_tree(tmp_path)
    started = clock.monotonic()

    found = [(one.kind, one.detail) for one in across_edges(root_of(tree))]

    assert clock.monotonic() - started < MIN_LIMIT_S + 10
    assert found[0] == ("child_not_compared", "child_timeout")
    assert {kind for kind, _ in found[1:]} == {"status_differs"}


def test_a_parents_audit_has_time_for_the_children_after_the_one_that_lies(tmp_path: Path) -> None:
    tree, clock = a_slow_tree(tmp_path)
    started = clock.monotonic()

    found = [(one.kind, one.detail) for one in across_edges(root_of(tree), budget_s=20.0)]

    assert clock.monotonic() - started <= 10.0
    assert found[0] == ("child_not_compared", "child_timeout")
    assert {kind for kind, _ in found[1:]} == {"status_differs"}


def test_reports_of_many_lines_are_cut_to_the_childs_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_tree, "MAX_CHANGES", 20)
    monkeypatch.setattr(audit_tree, "MIN_LINES", 5)
    tree = a_booted_tree(tmp_path)
    tree.add("second", parent="root")
    tree.poll()
    leaf = tree.nodes["leaf"]

    def lying(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ["PATH_INFO"].endswith("/audit"):
            return leaf.app(environ, start_response)
        lines = [{"kind": "two_places", "id": f"x{number}"} for number in range(1000)]
        start_response("200 OK", [("Content-Type", "application/json")])
        return [orjson.dumps({"version": 1, "inconsistencies": lines, "complete": True})]

    tree.network.mount(leaf.url, lying)
    reports = audit_tree.ask_children(root_of(tree).children, 5.0)
    parent = Caller("somebody", "somebody", Role.PARENT, "")

    assert [(len(r.reported.inconsistencies), r.reported.complete) for r in reports] == [
        (10, False),
        (0, True),
    ]
    # None of these ids was sent by this parent.
    assert audit_tree.for_parent(root_of(tree), parent, 5.0).inconsistencies == ()


@pytest.mark.parametrize(("placements_per_s", "budget_s"), [(2.0, 61.0), (0.0001, 3600.0)])
def test_the_audit_of_a_tree_has_more_time_where_more_is_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placements_per_s: float, budget_s: float
) -> None:
    monkeypatch.setattr(audit_edges, "PLACEMENTS_PER_S", placements_per_s)
    tree = a_booted_tree(tmp_path)

    answer = tree.nodes["root"].client().get("/audit?tree=true").json

    asked = [sent.url for sent in tree.network.sent if "/audit?" in sent.url]
    assert [float(parse_qs(urlsplit(url).query)["budget_s"][0]) for url in asked] == [budget_s]
    assert [child["complete"] for child in answer["children"]] == [True]


def test_an_audit_that_nobody_waits_for_asks_no_further_child(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)
    asked = len(tree.network.sent)

    with pytest.raises(CallerGone):
        across_edges(root_of(tree), is_wanted=lambda: False)
    with pytest.raises(CallerGone):
        audit_tree.ask_children(root_of(tree).children, 5.0, lambda: False)

    assert all("/reservations" not in sent.url for sent in tree.network.sent[asked:])
