"""A zone whose database lacks a table or a column: callers, log and start say so, and what mends it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.builders.inline_executor import InlineExecutor
from tests.builders.tree import Node, Tree
from zonesched.errors import ConfigError
from zonesched.services import background
from zonesched.store import schema
from zonesched.store.outages import wrong_schema

MEND = "`zonesched db upgrade`"


@contextmanager
def renamed(node: Node, of: str, name: str, to: str) -> Iterator[None]:
    """Let a zone's database lack a table or a column: it has another name meanwhile."""
    for_now, back = (f"{of.format(old)} {new}" for old, new in ((name, to), (to, name)))
    node.zone.store.write(lambda tx: tx.exec_driver_sql(for_now))
    yield
    node.zone.store.write(lambda tx: tx.exec_driver_sql(back))


def without_table(node: Node, table: str) -> AbstractContextManager[None]:
    return renamed(node, "ALTER TABLE {} RENAME TO", table, "lost")


def without_column(node: Node, table: str, column: str) -> AbstractContextManager[None]:
    return renamed(node, f"ALTER TABLE {table} RENAME COLUMN {{}} TO", column, "lost")


@pytest.mark.parametrize("column", ["", "public_key"], ids=["table", "column"])
def test_a_caller_hears_that_the_schema_is_wrong_and_the_log_what_mends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    node = Tree(tmp_path).add("zone")
    lacking = without_column(node, "keypairs", column) if column else without_table(node, "keypairs")
    with lacking, caplog.at_level(logging.ERROR):
        refused = node.client().get("/os-keypairs")
        others = node.client().get("/servers")

    assert (refused.status, refused.headers.get("Retry-After"), others.status) == (503, None, 200)
    fault = refused.json["serviceUnavailable"]
    assert (fault["error_code"], MEND in fault["message"]) == ("database_schema_wrong", True)
    (record,) = caplog.records
    assert record.exc_info is None
    assert "keypairs" in record.getMessage()
    assert MEND in record.getMessage()


def test_background_work_goes_on_with_one_line_for_each_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    executor = InlineExecutor()
    node = Tree(tmp_path, executor=executor).add("zone")
    background.start(node.zone)
    (reaper,) = [loop for loop in executor.loops if loop.name == "reaper"]
    with without_table(node, "inbound_builds"), caplog.at_level(logging.ERROR):
        pause_s = reaper.step()

    assert 0 < pause_s < 5
    assert [record.exc_info for record in caplog.records] == [None]
    assert reaper.step() == background.REAPER_PAUSE_S


def test_a_zone_that_lacks_a_table_is_not_ready(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("zone")
    with without_table(node, "keypairs"):
        refused = node.client().get("/readiness")

    assert (refused.status, node.client().get("/readiness").status) == (503, 200)


@pytest.mark.parametrize("table", ["keypairs", "alembic_version"])
def test_no_zone_starts_on_a_database_that_lacks_a_table(tmp_path: Path, table: str) -> None:
    node = Tree(tmp_path).add("zone")
    with without_table(node, table), pytest.raises(ConfigError) as refused:
        schema.upgrade(node.zone.store)

    assert f"lacks tables of its schema: {table}. Restore a backup" in refused.value.message
    assert "`zonesched db restore`" in refused.value.message


def test_a_statement_that_names_no_table_of_a_zone_is_a_fault_of_the_program(tmp_path: Path) -> None:
    store = Tree(tmp_path).add("zone").zone.store

    with pytest.raises(sa.exc.DBAPIError) as wrong:
        store.read(lambda tx: tx.exec_driver_sql("SELECT nothing FROM nowhere"))

    assert wrong_schema(wrong.value) is None
