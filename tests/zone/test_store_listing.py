"""Listing the instances of one reservation reads those, however many others their project has."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.builders.one_zone import a_store
from zonesched.model.server_query import NEWEST_FIRST
from zonesched.store import server_list
from zonesched.store.server_list import OfProject, Page


@pytest.mark.sqlite
def test_a_reservation_is_listed_by_its_own_index(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    asked: list[tuple[str, tuple[object, ...]]] = []

    @sa.event.listens_for(store.engine, "before_cursor_execute")
    def _(_connection, _cursor, statement, parameters, _context, _many) -> None:  # type: ignore[no-untyped-def]
        asked.append((statement, parameters))

    wanted = Page(
        OfProject("caller", "project"),
        "reservation",
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
        marker="",
        limit=2,
    )
    store.read(lambda tx: server_list.page(tx, wanted))
    statement, parameters = asked[-1]
    plan = store.read(lambda tx: tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all())
    assert "ix_instances_reservation" in str(plan)
    store.close()
