"""The rows from which each schedule of a scene starts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from zonesched.store import tables

_TABLES = tables.instances.metadata.sorted_tables
_NAMES = [table.name for table in _TABLES]
_CASCADES = {
    name: {
        name,
        *(
            one.name
            for one in _TABLES
            for key in one.foreign_keys
            if key.ondelete and key.column.table.name == name
        ),
    }
    for name in _NAMES
}
"""For each table, itself and those whose rows go with its own."""

Connection = psycopg.Connection[Any]


class KeptRows:
    """A copy of all rows in the same database; to put them back takes some milliseconds.

    `schema`: where the copy is.
    """

    def __init__(self, connection: Connection, schema: str = "kept") -> None:
        self._connection = connection
        self._schema = schema
        text: Any = f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}"
        connection.execute(text)
        for name in _NAMES:
            connection.execute(_of(f"CREATE TABLE {schema}.{{0}} AS TABLE public.{{0}}", name))
        self._full = {name for name in _NAMES if self._has_rows(name)}
        self._texts: dict[str, list[str]] = {}

    def put_back(self, written: Collection[str]) -> None:
        """Make the tables as they were, of which those in `written` have changed since."""
        changed = changed_tables(written)
        # The copy is sound as a whole: to check each row's references would take as long again.
        statements = [
            SQL("BEGIN"),
            SQL("SET LOCAL session_replication_role = replica"),
            *(_of("DELETE FROM public.{0}", name) for name in changed),
            *(
                _of(f"INSERT INTO public.{{0}} TABLE {self._schema}.{{0}}", name)
                for name in changed
                if name in self._full
            ),
            SQL("COMMIT"),
        ]
        self._connection.execute(SQL("; ").join(statements))

    def lines(self, table: str, columns: str, written: Collection[str]) -> list[str]:
        """Return a line for each row of a table; those of a table that was not written are read once."""
        is_kept = table not in changed_tables(written)
        if is_kept and table in self._texts:
            return self._texts[table]
        statement: Any = f"SELECT {columns} FROM {table}"
        found = sorted(map(repr, self._connection.execute(statement)))
        if is_kept:
            self._texts[table] = found
        return found

    def changed_rows(self, table: str) -> frozenset[str]:
        """Return the keys of the rows of a table that differ from the copy."""
        kept = self._schema
        keys = ", ".join(column.name for column in tables.instances.metadata.tables[table].primary_key)
        statement: Any = (
            f"SELECT ROW({keys})::text FROM (TABLE public.{table} EXCEPT TABLE {kept}.{table}) AS made"
            f" UNION SELECT ROW({keys})::text FROM (TABLE {kept}.{table} EXCEPT TABLE public.{table}) AS lost"
        )
        return frozenset(f"{table} {key}" for (key,) in self._connection.execute(statement))

    def forget(self) -> None:
        """Leave the database as it was found."""
        text: Any = f"DROP SCHEMA {self._schema} CASCADE"
        self._connection.execute(text)

    def _has_rows(self, name: str) -> bool:
        return self._connection.execute(_of("SELECT 1 FROM public.{0} LIMIT 1", name)).fetchone() is not None


def changed_tables(written: Collection[str]) -> list[str]:
    """Return the tables that differ where statements have written to these: cascades are added."""
    return sorted({name for one in written for name in _CASCADES.get(one, ())})


def _of(statement: str, name: str) -> Composed:
    text: Any = statement
    return SQL(text).format(Identifier(name))
