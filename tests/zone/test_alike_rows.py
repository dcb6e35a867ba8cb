"""Rows that differ in few columns, inserted together."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tests.builders.migrated import a_database
from tests.builders.stores import open_store
from zonesched.store import tables as t
from zonesched.store.alike_rows import AlikeRows

PLACES = AlikeRows(t.group_places, ("group_id", "host_id"))
SHARED = {"caller_id": "caller", "group_id": "one of the rows", "host_id": "likewise", "child_id": None}
TEXTS = ["", "plain", "'quoted' \"twice\"", "a\\b", "line\nfeed", "Grüße, 日本 🙂", "null", "1", "[1]"]


@pytest.mark.parametrize("count", [0, 1, len(TEXTS)])
def test_each_row_has_its_own_values_and_the_shared_ones(tmp_path: Path, count: int) -> None:
    store = open_store(a_database(tmp_path / "zone.sqlite"))
    rows = [(text, f"host-{number}") for number, text in enumerate(TEXTS[:count])]

    store.write(lambda tx: PLACES.insert(tx, SHARED, rows))

    found = store.read(lambda tx: [tuple(row) for row in tx.execute(sa.select(t.group_places))])
    assert sorted(found) == sorted(("caller", group, host, None) for group, host in rows)
    store.close()


def test_one_row_that_is_there_already_refuses_all(tmp_path: Path) -> None:
    store = open_store(a_database(tmp_path / "zone.sqlite"))
    store.write(lambda tx: PLACES.insert(tx, SHARED, [("b", "host-1")]))

    with pytest.raises(IntegrityError):
        store.write(lambda tx: PLACES.insert(tx, SHARED, [("a", "host-2"), ("b", "host-2")]))

    found = store.read(lambda tx: tx.execute(sa.select(t.group_places.c.group_id)).scalars().all())
    assert found == ["b"]
    store.close()
