"""A zone whose children hold and confirm all that it asks for reads the places of a parent's call once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.boots import FLAVOR, boot, rows
from tests.builders.tree import Tree, a_host

pytestmark = pytest.mark.sqlite


@pytest.fixture
def statements() -> Iterator[list[str]]:
    texts: list[str] = []

    def watch(connection: Any, _record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(texts.append)

    sa.event.listen(sa.pool.Pool, "connect", watch)
    yield texts
    sa.event.remove(sa.pool.Pool, "connect", watch)


def test_the_places_of_a_boot_are_read_once_in_each_zone_below(statements: list[str], tmp_path: Path) -> None:
    # given a root over a middle zone over a leaf
    tree = Tree(tmp_path)
    tree.add("root")
    tree.add("middle", parent="root")
    tree.add("leaf", parent="middle", hosts_=[a_host("h1")])
    tree.poll()
    assert tree.nodes["root"].client().post("/flavors", FLAVOR).status == 200
    boot(tree, num_instances=3)
    del statements[:]

    tree.step("root")

    assert rows(tree, "leaf", "SELECT state FROM placements") == [("confirmed",)] * 3
    # Before the confirm: what they wrote, and what their children have answered, they know.
    assert len([text for text in statements if "FROM inbound_builds LEFT OUTER JOIN" in text]) == 2
    tree.stop()
