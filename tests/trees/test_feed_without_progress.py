"""A child whose feed makes no progress is asked again after a pause, and the audit does not follow it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID as UUID_

import orjson
import pytest

from tests.builders.boots import FLAVOR, boot
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Replace
from zonesched.services.audit import audit_edges
from zonesched.services.children.sync import Sync

pytestmark = pytest.mark.once

UUID = "22222222-2222-4222-8222-222222222222"
A_LINE = {"uuid": UUID, "attempt": 1, "status": "ACTIVE", "state": "confirmed", "reason": ""}
FEEDS = {
    "an empty page": {"instances": [], "cursor": "next", "more": True},
    "the same cursor": {"instances": [A_LINE], "cursor": "", "more": True},
}


def a_tree(folder: Path, feed: str) -> Tree:
    tree = Tree(folder)
    tree.add("root").client().post("/flavors", FLAVOR)
    leaf = tree.add("leaf", hosts_=[a_host("h1")], parent="root")
    tree.poll()
    body = orjson.dumps(FEEDS[feed])
    tree.network.fault(leaf.url, Replace(times=10**6, path="/reservations", status=200, body=body))
    return tree


def asked(tree: Tree) -> int:
    return sum("/reservations?" in sent.url for sent in tree.network.sent)


@pytest.mark.parametrize("feed", FEEDS)
def test_it_is_asked_again_after_a_pause(tmp_path: Path, feed: str) -> None:
    tree = a_tree(tmp_path, feed)
    sync = Sync(tree.nodes["root"].zone)

    pauses = [sync.step() for _ in range(5)]

    assert min(pauses) > 0.0
    assert asked(tree) == 1


@pytest.mark.parametrize("feed", FEEDS)
def test_the_audit_says_that_it_could_not_be_compared(tmp_path: Path, feed: str) -> None:
    tree = a_tree(tmp_path, feed)

    (found,) = audit_edges.across_edges(tree.nodes["root"].zone)

    assert (found.kind, found.detail) == ("child_not_compared", "child_invalid_answer")
    assert asked(tree) <= 2


def test_the_audit_does_not_follow_a_feed_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_edges, "MAX_UNKNOWN", 50)
    tree = a_tree(tmp_path, "an empty page")
    leaf = tree.nodes["leaf"]
    tree.network.heal(leaf.url)
    pages = itertools.count()

    def endless(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ["PATH_INFO"].endswith("/reservations"):
            return leaf.app(environ, start_response)
        number = next(pages)
        lines = [A_LINE | {"uuid": str(UUID_(int=number * 10 + n))} for n in range(10)]
        start_response("200 OK", [("Content-Type", "application/json")])
        return [orjson.dumps({"instances": lines, "cursor": f"page-{number}", "more": True})]

    tree.network.mount(leaf.url, endless)
    (found,) = audit_edges.across_edges(tree.nodes["root"].zone)

    assert (found.kind, found.detail) == ("child_not_compared", "child_invalid_answer")
    assert next(pages) <= 7


def test_an_honest_feed_of_several_pages_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonesched.services.owners.reservations.PAGE", 2)
    tree = Tree(tmp_path)
    root = tree.add("root")
    root.client().post("/flavors", FLAVOR)
    tree.add("leaf", hosts_=[a_host("h1")], parent="root")
    tree.poll()
    boot(tree, num_instances=5)
    tree.settle()

    assert audit_edges.across_edges(root.zone) == []
