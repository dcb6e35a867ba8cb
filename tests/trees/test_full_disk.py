"""A database that takes no more rows: what is asked leaves nothing, and work goes on when there is room."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.boots import a_building_tree, a_small_tree, all_active, boot, report_all
from tests.builders.inline_executor import InlineExecutor
from tests.builders.one_zone import sql
from tests.builders.tree import Node, Tree, a_host
from zonesched.errors import DatabaseFull
from zonesched.model.agent_instances import AgentState
from zonesched.services import background
from zonesched.services.audit import audit
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.children.sync import Sync

pytestmark = pytest.mark.sqlite

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}
LARGE = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 600}}


def fill(node: Node, spare_pages: int) -> None:
    """From now on the database file may grow by so many pages only, as on a disk that is nearly full."""
    store = node.zone.store
    (pages,) = sql(node.zone, "pragma page_count")[0]

    @sa.event.listens_for(store.engine, "connect")
    def _(connection: Any, _record: Any) -> None:
        connection.execute(f"pragma max_page_count={pages + spare_pages}")

    # The next transactions begin with new connections.
    store.close()


def make_room(node: Node) -> None:
    fill(node, 10**6)


def counted(node: Node) -> list[Any]:
    tables = ("reservations", "instances", "placements")
    return [sql(node.zone, f"select count(*) from {table}")[0][0] for table in tables]


def a_node(tmp_path: Path, executor: InlineExecutor | None = None) -> Node:
    node = Tree(tmp_path, executor=executor).add(
        "zone", hosts_=[a_host("h1", vcpus=600, ram_mb=600 * 64, disk_gb=600)]
    )
    node.client().post("/flavors", FLAVOR)
    return node


def test_a_boot_that_cannot_be_written_leaves_nothing_and_works_when_there_is_room(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    fill(node, 0)

    refused = node.client().post("/zones/boot", LARGE)
    left, readable = counted(node), node.client().get("/servers").status
    make_room(node)

    assert (refused.status, left, readable) == (503, [0, 0, 0], 200)
    fault = refused.json["serviceUnavailable"]
    assert (fault["error_code"], fault["retryAfter"], refused.headers["Retry-After"]) == (
        "database_full",
        30,
        "30",
    )
    assert node.client().post("/zones/boot", LARGE).status == 202


def test_a_boot_that_was_accepted_goes_on_when_there_is_room(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    node.client().post("/zones/boot", LARGE)
    fill(node, 0)
    background.work_on_boots(node.zone)
    while_full = counted(node)[2]
    make_room(node)
    node.zone.clock.advance(61)  # type: ignore[attr-defined]
    node.client("compute").post("/hosts/beat", {"service": "agent"})
    for _ in range(3):
        background.work_on_boots(node.zone)

    assert while_full == 0
    assert counted(node)[2] == 600
    assert audit.run(node.zone) == []


def test_a_boot_is_in_no_workers_hand_once_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a boot that no batch takes
    node = a_node(tmp_path)
    together = {"os:scheduler_hints": {"group_policy": "affinity"}}
    node.client().post("/zones/boot", {**LARGE, **together})

    def full(_fn: object) -> None:
        raise DatabaseFull("This zone's database is full.", 30)

    # When not even its pause can be written
    monkeypatch.setattr(node.zone.store, "write", full)
    node.zone.boots.polled(node.zone.boots.wakes, node.zone.clock.monotonic() + 60)
    with pytest.raises(DatabaseFull):
        background.work_on_boots(node.zone)

    # Then
    assert node.zone.boots.in_hand == 0


def test_background_work_has_no_traceback_for_each_try_while_nothing_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a boot, and no room
    executor = InlineExecutor()
    node = a_node(tmp_path, executor)
    background.start(node.zone)
    loops = {loop.name: loop for loop in executor.loops}
    node.client().post("/zones/boot", LARGE)
    fill(node, 0)
    # When all of it is tried
    with caplog.at_level(logging.ERROR):
        for name in ("boot-0", "boot-0", "reaper", "moves"):
            loops[name].step()
    # Then its lines do not fill the disk further
    assert "nothing can be written" in caplog.text
    assert {record.exc_info for record in caplog.records} == {None}


def test_a_process_that_stops_while_nothing_can_be_written_closes_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a boot in the hands of a process, and a database without room for any write
    node = a_node(tmp_path)
    node.client().post("/zones/boot", LARGE)
    sql(node.zone, "CREATE TABLE ballast (content BLOB)")
    more = "INSERT INTO ballast VALUES (zeroblob(99999))"
    sql(node.zone, f"CREATE TRIGGER more AFTER UPDATE ON reservations BEGIN {more}; END")
    fill(node, 0)
    # When it is stopped
    with caplog.at_level(logging.ERROR):
        node.zone.stop()
    # Then
    assert "unfinished boots go on in other processes once their leases end" in caplog.text
    assert {record.exc_info for record in caplog.records} == {None}


def test_a_parent_that_cannot_write_says_so_in_one_line_each_time_it_has_heard_of_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # given a parent with changes to read from one child, and a server to delete in the other
    tree = a_small_tree(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf-b"]
    boot(tree)
    all_active(tree)
    tree.settle()
    changed, *_ = leaf.client().get("/servers?all_tenants=1").json["servers"]
    leaf.client().delete(f"/servers/{changed['id']}")
    deleted = next(one for one in root.client().get("/servers").json["servers"] if one["id"] != changed["id"])
    root.client().delete(f"/servers/{deleted['id']}")

    def full(_fn: object) -> None:
        raise DatabaseFull("This zone's database is full.", 30)

    # when its database takes nothing
    monkeypatch.setattr(root.zone.store, "write", full)
    caplog.clear()
    with caplog.at_level(logging.ERROR, "zonesched"):
        Sync(root.zone).step()
        PendingCalls(root.zone).step()
    # then
    told = [(record.getMessage(), record.exc_info) for record in caplog.records]
    assert told == [
        (f"{what}: the database cannot be used: This zone's database is full.", None)
        for what in (
            "a child's changes could not be taken and are asked for again",
            "telling a child zone failed and will be repeated",
        )
    ]


def test_a_server_in_a_child_is_shown_as_last_known_while_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a server of a child, which has changed there
    tree = a_building_tree(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf-b"]
    report_all(tree, "leaf-b", AgentState.ACTIVE)
    changed, *_ = leaf.client().get("/servers?all_tenants=1").json["servers"]

    def full(_fn: object) -> None:
        raise DatabaseFull("This zone's database is full.", 30)

    # When the change cannot be kept
    monkeypatch.setattr(root.zone.store, "write", full)
    shown = root.client().get(f"/servers/{changed['id']}")

    # Then
    assert shown.status == 200, shown.body
    assert (shown.json["server"]["status"], shown.json["server"]["stale"]) == ("BUILD", True)
