"""The rows from which each schedule of a scene starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from zonesched.store import tables

_NAMES = [table.name for table in tables.instances.metadata.sorted_tables]

Connection = psycopg.Connection[Any]


class KeptRows:
    """A copy of all rows in the same database; to put them back takes some milliseconds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.execute("DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept")
        for name in _NAMES:
            connection.execute(_of("CREATE TABLE kept.{0} AS TABLE public.{0}", name))
        full = [name for name in _NAMES if self._has_rows(name)]
        # The copy is sound as a whole: to check each row's references would take as long again.
        self._put_back: Sequence[Composed | SQL] = [
            SQL("BEGIN"),
            SQL("SET LOCAL session_replication_role = replica"),
            *(_of("DELETE FROM public.{0}", name) for name in _NAMES),
            *(_of("INSERT INTO public.{0} TABLE kept.{0}", name) for name in full),
            SQL("COMMIT"),
        ]

    def put_back(self) -> None:
        """Make the tables as they were."""
        self._connection.execute(SQL("; ").join(self._put_back))

    def forget(self) -> None:
        """Leave the database as it was found."""
        self._connection.execute("DROP SCHEMA kept CASCADE")

    def _has_rows(self, name: str) -> bool:
        return self._connection.execute(_of("SELECT 1 FROM public.{0} LIMIT 1", name)).fetchone() is not None


def _of(statement: str, name: str) -> Composed:
    text: Any = statement
    return SQL(text).format(Identifier(name))
