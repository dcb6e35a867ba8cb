"""A zone whose database is away for a while: its callers hear so, and when to come back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.boots import a_small_tree, boot, counts, rows
from tests.builders.crashes import inconsistencies
from tests.builders.inline_executor import InlineExecutor
from tests.builders.postgresql import SERVER, databases
from tests.builders.tree import Node, Tree
from tests.builders.visitor import Visitor
from zonesched.services import background
from zonesched.store import store as store_module
from zonesched.store.outages import outage
from zonesched.store.store import Transaction
from zonesched.zones.child import Offline

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}


@contextmanager
def away(node: Node, folder: Path) -> Iterator[None]:
    """Let the database of a zone take no connections, and end those that are there."""
    path = folder / f"{node.name}.sqlite"
    if SERVER:
        databases().allow_connections(path, allowed=False)
        yield
        databases().allow_connections(path, allowed=True)
        return
    node.zone.store.close()
    moved = path.rename(path.with_suffix(".moved"))
    path.mkdir()
    yield
    path.rmdir()
    moved.rename(path)


@pytest.mark.parametrize(
    ("method", "path", "body"), [("GET", "/servers", None), ("POST", "/flavors", FLAVOR)], ids=["GET", "POST"]
)
def test_a_caller_hears_that_the_database_is_away_and_when_to_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, path: str, body: Any
) -> None:
    node = Tree(tmp_path).add("zone")
    with away(node, tmp_path), caplog.at_level(logging.ERROR):
        refused = node.client().call(method, path, body)

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert refused.json["serviceUnavailable"]["error_code"] == "database_unavailable"
    # One line, whatever the driver and its wrapper have to say.
    assert [record.exc_info for record in caplog.records] == [None]
    assert node.client().get("/servers").status == 200


def test_background_work_goes_on_by_itself_with_one_line_for_each_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    executor = InlineExecutor()
    node = Tree(tmp_path, executor=executor).add("zone")
    background.start(node.zone)
    (reaper,) = [loop for loop in executor.loops if loop.name == "reaper"]
    with away(node, tmp_path), caplog.at_level(logging.ERROR):
        pause_s = reaper.step()

    assert 0 < pause_s < 5
    assert [record.exc_info for record in caplog.records] == [None]
    assert reaper.step() == background.REAPER_PAUSE_S


def test_the_dashboard_says_so_as_well(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("zone")
    visitor = Visitor(node)
    visitor.sign_in()
    with away(node, tmp_path):
        refused = visitor.get("/servers")

    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert "cannot be used now" in refused.text
    assert visitor.get("/servers").status_code == 200


def test_a_child_without_its_database_is_down_and_not_busy(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    root, child = tree.add("root"), tree.add("child")
    tree.join("root", "child")
    with away(child, tmp_path):
        for _ in range(root.zone.conf.zone_failures_to_offline):
            tree.clock.advance(root.zone.conf.zone_db_check_interval)
            background.poll_children(root.zone)
    (known,) = root.zone.children.snapshot()

    assert isinstance(known.status, Offline)
    assert known.status.error == "child_database_unavailable"


@pytest.mark.sqlite
def test_a_zone_whose_connections_are_all_in_use_says_when_to_come_back(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("zone")
    url = node.zone.store.engine.url
    node.zone.store.close()
    node.zone.store.engine = sa.create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0)
    with node.zone.store.engine.connect():
        refused = node.client().get("/servers")

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")


def test_a_statement_that_is_wrong_is_no_outage(tmp_path: Path) -> None:
    store = Tree(tmp_path).add("zone").zone.store

    with pytest.raises(sa.exc.DBAPIError) as wrong:
        store.read(lambda tx: tx.exec_driver_sql("SELECT nothing FROM nowhere"))

    assert outage(wrong.value) is None


@pytest.mark.postgresql
def test_a_server_that_takes_a_privilege_away_is_an_outage(tmp_path: Path) -> None:
    store = Tree(tmp_path).add("zone").zone.store

    def fn(tx: Transaction) -> None:
        # A role without any privilege in the zone's database, which every server has.
        tx.exec_driver_sql("SET LOCAL ROLE pg_monitor")
        tx.exec_driver_sql("SELECT * FROM hosts")

    with pytest.raises(sa.exc.DBAPIError, match="permission denied") as refused:
        store.read(fn)

    assert outage(refused.value) is not None


def test_the_error_of_a_connection_that_was_lost_twice_has_causes_that_end(tmp_path: Path) -> None:
    store = Tree(tmp_path).add("zone").zone.store

    def lose() -> None:
        with store_module._noting_loss():
            try:
                raise OSError("the server closed the connection")
            except OSError as error:
                raise sa.exc.OperationalError("SELECT 1", {}, error, connection_invalidated=True) from error

    with pytest.raises(sa.exc.OperationalError) as lost:
        store._on_living_connection(lose)

    # Whoever looks for a full disk among them follows these.
    cause = lost.value.__cause__ or lost.value.__context__
    assert isinstance(cause, OSError)
    assert (cause.__cause__, cause.__context__) == (None, None)


def a_boot_for_leaf_a(tmp_path: Path, **options: float) -> tuple[Tree, str]:
    """A boot that fits nowhere without the hosts of leaf-a, two levels below the zone of its user."""
    tree = a_small_tree(tmp_path, **options)
    return tree, boot(tree, num_instances=20)


def work_at_root(tree: Tree, seconds: float) -> None:
    """Let the root work on its boots for so long, whatever has become of the others."""
    root = tree.nodes["root"].zone
    for _ in range(int(seconds / 4.0)):
        while background.work_on_boots(root) == 0.0:
            pass
        tree.clock.advance(4.0)


@pytest.mark.parametrize("name", ["leaf-a", "region"], ids=["grandchild", "child"])
def test_a_boot_is_late_and_does_not_fail_where_a_database_was_away_for_a_while(
    tmp_path: Path, name: str
) -> None:
    # given
    tree, reservation_id = a_boot_for_leaf_a(tmp_path)
    # when it is looked at again and again meanwhile
    with away(tree.nodes[name], tmp_path):
        work_at_root(tree, 32.0)
        waiting = counts(tree, reservation_id)
        ((selects, code),) = rows(tree, "root", "SELECT selects, reason FROM reservations")
    tree.poll()
    tree.clock.advance(18.0)
    tree.settle()
    # then
    assert (waiting, selects, code) == ({"BUILD": 20}, 0, "no_valid_host_incomplete")
    assert rows(tree, "root", "SELECT DISTINCT state FROM placements") == [("confirmed",)]
    assert counts(tree, reservation_id) == {"BUILD": 20}
    assert inconsistencies(tree) == []


def test_a_boot_waits_for_a_database_only_so_long(tmp_path: Path) -> None:
    tree, reservation_id = a_boot_for_leaf_a(tmp_path, child_outage_wait=10.0)
    with away(tree.nodes["region"], tmp_path):
        work_at_root(tree, 32.0)

        assert counts(tree, reservation_id) == {"ERROR": 20}


def test_a_boot_that_has_enough_places_waits_for_no_database(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree, num_instances=20, min_count=1)
    with away(tree.nodes["region"], tmp_path):
        work_at_root(tree, 12.0)
        found = counts(tree, reservation_id)

    assert found == {"BUILD": 10, "ERROR": 10}
