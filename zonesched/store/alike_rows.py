"""Inserts of many rows that differ in few columns, as the instances of a boot and their placements do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store.prepared import Prepared


class AlikeRows:
    """Inserts rows of one table that have all columns but the `differing` ones in common.

    SQLite reads the differing values of several rows from one JSON parameter: a statement for each row takes
    twice as long. On PostgreSQL `send_many` does so already.
    """

    def __init__(self, table: sa.Table, differing: Sequence[str]) -> None:
        self._differing = differing
        self._each = Prepared(sa.insert(table))
        element = sa.func.json_each(sa.bindparam("rows", type_=sa.Text)).table_valued("value").c.value
        paths: dict[str, sa.ColumnElement[str]] = {
            name: sa.literal_column(f"'$[{place}]'") for place, name in enumerate(differing)
        }
        values = [
            sa.func.json_extract(element, paths[column.name])
            if column.name in paths
            else sa.bindparam(column.name, type_=column.type)
            for column in table.columns
        ]
        names = [column.name for column in table.columns]
        self._of_json = Prepared(sa.insert(table).from_select(names, sa.select(*values)))

    def insert(self, tx: Connection, shared: Mapping[str, Any], rows: Sequence[Sequence[Any]]) -> None:
        """Add a row for each of `rows`, which have the differing values in the order of their columns."""
        if tx.dialect.name == "sqlite" and len(rows) > 1:
            common = {name: value for name, value in shared.items() if name not in self._differing}
            self._of_json.run(tx, **common, rows=orjson.dumps(rows).decode())
        else:
            named = [dict(zip(self._differing, row, strict=True)) for row in rows]
            self._each.send_many(tx, [{**shared, **row} for row in named])
