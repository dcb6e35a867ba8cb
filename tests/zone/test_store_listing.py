"""Listing the instances of one reservation reads those, however many others their project has."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.builders.clock import FakeClock
from tests.builders.one_zone import a_store, a_zone, boot_below, sql
from tests.builders.query_plans import record_plans
from zonesched.model.server_query import NEWEST_FIRST
from zonesched.store import server_list
from zonesched.store.server_list import Everybody, OfProject, Page


def a_page(reservation_id: str = "", marker: str = "") -> Page:
    return Page(
        OfProject("caller", "project"),
        reservation_id,
        statuses=(),
        flavor_id="",
        changed_since=0.0,
        changed_before=0.0,
        name="",
        uuid="",
        user_id="",
        project_id="",
        host="",
        order=NEWEST_FIRST,
        marker=marker,
        limit=2,
    )


@pytest.mark.sqlite
def test_a_reservation_is_listed_by_its_own_index(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    asked: list[tuple[str, tuple[object, ...]]] = []

    @sa.event.listens_for(store.engine, "before_cursor_execute")
    def _(_connection, _cursor, statement, parameters, _context, _many) -> None:  # type: ignore[no-untyped-def]
        asked.append((statement, parameters))

    wanted = a_page("reservation")
    store.read(lambda tx: server_list.page(tx, wanted))
    statement, parameters = asked[-1]
    plan = store.read(lambda tx: tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all())
    assert "ix_instances_reservation" in str(plan)
    store.close()


@pytest.mark.postgresql
def test_a_page_after_a_marker_begins_to_read_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    zone = a_zone(tmp_path, clock)
    uuids = []
    for _ in range(300):
        clock.advance(1)
        uuids.append(boot_below(zone, "child-1"))
    sql(zone, "ANALYZE")
    wanted = replace(a_page(marker=uuids[150]), scope=Everybody())
    plans = record_plans(monkeypatch, "SELECT instances.uuid", analyze=True)

    found = zone.store.read(lambda tx: server_list.page(tx, wanted))

    assert [one.uuid for one in found] == uuids[149:147:-1]
    tried = re.findall(r"Rows Removed by Filter: (\d+)", "\n".join(plans))
    assert [count for count in tried if int(count) > 1] == []
