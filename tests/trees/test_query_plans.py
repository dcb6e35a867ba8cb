"""No statement of repeated work walks a table that grows with the instances: rows are found by an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.services.audit import audit
from zonesched.services.children.sync import Sync
from zonesched.services.hosts import automatic_evacuation, services
from zonesched.services.placing.pruning import Pruning

pytestmark = pytest.mark.sqlite

LARGE = frozenset(
    {
        "aliases",
        "group_places",
        "hosts",
        "inbound_builds",
        "instance_actions",
        "instance_locks",
        "instance_states",
        "instances",
        "inventories",
        "moves",
        "placements",
        "reservations",
    }
)
"""Tables with a row for each host, instance, placement, boot or action."""

READ_IN_ORDER = ("ix_instances_created", "ix_reservations_created")
"""Indexes that are read in their order as far as a page goes."""

MAY_BE_WALKED = ("ix_inbound_builds_tombstones", *READ_IN_ORDER)
"""These, and an index of the few rows that pruning looks at."""

WALK = re.compile(r"SCAN (\w+)")
OF_ONE_STATE = re.compile(
    r"SEARCH (instances|placements) USING (?:COVERING )?INDEX (\w+) \((?:state|status)=\?\)"
)
COMMON_STATE = {"placements": "placements.state = 'confirmed'", "instances": "instances.status = 'ACTIVE'"}
OF_FEW_STATES = "ix_placements_motion"
INFINITE = re.compile(r"\bInf\b")


class Statements:
    """Texts of the statements that connections of the block have run, with their values."""

    def __init__(self) -> None:
        self.texts: set[str] = set()

    def watch(self, connection: Any, _record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(self.texts.add)


@pytest.fixture
def statements() -> Iterator[Statements]:
    watched = Statements()
    sa.event.listen(sa.pool.Pool, "connect", watched.watch)
    yield watched
    sa.event.remove(sa.pool.Pool, "connect", watched.watch)


@built_once
def a_tree(folder: Path) -> Tree:
    """A root over a leaf, each with instances of its own; the leaf has some of the root's."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=40), a_host("h2", vcpus=40)])
    tree.poll()
    for node in tree.nodes.values():
        node.client().post("/flavors", FLAVOR)
        boot = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 5}}
        assert node.client().post("/zones/boot", boot).status == 202
    tree.settle()
    PlayedAgent(tree.nodes["leaf"]).converge()
    tree.settle()
    return tree


@pytest.fixture
def tree(statements: Statements, tmp_path: Path) -> Tree:
    return a_tree(tmp_path)


def walks(database: Path, texts: set[str]) -> dict[str, str]:
    """Statements that read all of a large table, or all in its most common state, by the step that does."""
    found = {}
    with closing(sqlite3.connect(database)) as connection:
        for text in sorted(texts):
            if not text.startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
                continue
            for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {INFINITE.sub('9e999', text)}"):
                rows = OF_ONE_STATE.match(step)
                if rows is not None and rows[2] != OF_FEW_STATES and COMMON_STATE[rows[1]] in text:
                    found[step] = text
                table = WALK.match(step)
                if table is not None and table[1] in LARGE and not any(i in step for i in MAY_BE_WALKED):
                    found[step] = text
    return found


def of_agent(tree: Tree, node: Node) -> None:
    PlayedAgent(tree.nodes["leaf"]).converge()


def read(node: Node, path: str) -> None:
    assert node.client().get(path).status == 200


WORK: dict[str, Callable[[Tree, Node], object]] = {
    "all steps of a zone": lambda tree, node: tree.step(node.name),
    "polls": lambda tree, node: tree.poll(1),
    "sync": lambda tree, node: Sync(node.zone).step(),
    "heartbeats": lambda tree, node: node.zone.heartbeats.write(),
    "fences": lambda tree, node: automatic_evacuation.evacuate_fenced(node.zone),
    "own service": lambda tree, node: services.beat_own(node.zone),
    "pruning": lambda tree, node: Pruning(node.zone).step(),
    "an agent": of_agent,
    "a page of all servers": lambda tree, node: read(node, "/servers/detail?all_tenants=1&limit=2"),
    "the servers of a host": lambda tree, node: read(node, "/servers/detail?all_tenants=1&host=h1"),
    "a page of boots": lambda tree, node: read(node, "/reservations?limit=2"),
    "a page of all boots": lambda tree, node: read(node, "/reservations?all_tenants=1&limit=2"),
    "one host": lambda tree, node: read(node, "/os-services?host=h1"),
    "a restart": lambda tree, node: tree.restart(node.name),
}


@pytest.mark.parametrize("name", ["root", "leaf"])
@pytest.mark.parametrize("work", list(WORK))
def test_repeated_work_walks_no_large_table(tree: Tree, statements: Statements, work: str, name: str) -> None:
    statements.texts.clear()
    tree.clock.advance(60)
    WORK[work](tree, tree.nodes[name])
    assert walks(tree.folder / f"{name}.sqlite", statements.texts) == {}


MAY_BE_SORTED = (
    "instance_actions.finished_at = 0.0",
    "instance_states.moves_begun != instance_states.moves_ended",
    "placements.state = 'parked'",
    "placements_1.number != placements.number",
    "json_each('[]')",
)
"""Conditions that leave few rows to sort: open actions, parked places, faults, the boots of groups."""


def sorts(database: Path, texts: set[str]) -> list[str]:
    """Statements that collect rows to sort or group them, which SQLite does in memory."""
    with closing(sqlite3.connect(database)) as connection:
        return [
            text
            for text in sorted(texts)
            if text.startswith("SELECT") and not any(condition in text for condition in MAY_BE_SORTED)
            for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {text}")
            if "TEMP B-TREE" in step
        ]


def test_an_audit_sorts_no_rows_of_which_there_are_many(tree: Tree, statements: Statements) -> None:
    statements.texts.clear()

    found = audit.run(tree.nodes["leaf"].zone)

    assert list(found) == []
    assert len(statements.texts) > len(MAY_BE_SORTED)
    assert sorts(tree.folder / "leaf.sqlite", statements.texts) == []


PAGES = [
    f"/{name}?{scope}limit={{}}" for name in ("servers", "reservations") for scope in ("", "all_tenants=1&")
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_after_a_marker_begins_to_read_there(tree: Tree, statements: Statements, path: str) -> None:
    client = tree.nodes["leaf"].client()
    (found,) = [rows for rows in client.get(path.format(1)).json.values() if rows and "id" in rows[0]]
    statements.texts.clear()
    assert client.get(f"{path.format(1)}&marker={found[0]['id']}").status == 200

    pages = {text for text in statements.texts if "ORDER BY" in text and "created_at DESC" in text}
    with closing(sqlite3.connect(tree.folder / "leaf.sqlite")) as connection:
        steps = [row[3] for text in pages for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
    assert "created_at<?" in steps[0]
    assert not [step for step in steps if "TEMP B-TREE" in step or step.startswith("SCAN")]
