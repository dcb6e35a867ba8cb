"""Databases on a PostgreSQL server for the tests of one process: each test gets what another left, emptied.

To make one takes a tenth of a second, to empty one some milliseconds.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import psycopg
import sqlalchemy as sa
from psycopg.sql import SQL, Identifier

from zonesched.store import schema, tables
from zonesched.store.postgresql import PipelinedCursor
from zonesched.store.store import Store

SERVER = os.environ.get("ZONESCHED_TEST_DATABASE_URL", "")
"""A database of the server on which tests may make others; "" where all is tested on SQLite."""

ENDED_WITHIN_MS = 10_000

TABLES = tables.instances.metadata.sorted_tables

FILLED = SQL(" UNION ALL ").join(
    SQL("SELECT {} WHERE EXISTS (SELECT FROM {})").format(table.name, Identifier(table.name))
    for table in TABLES
)
"""Names of the tables that have rows."""

EMPTY_ALL = SQL("; ").join(SQL("DELETE FROM {}").format(Identifier(table.name)) for table in reversed(TABLES))
"""One call for all tables, and one transaction."""


class WritingCursor(PipelinedCursor):
    """Cursor that counts the rows which this process has written, in all databases."""

    rows_written: ClassVar[int] = 0
    _sent: ClassVar[WeakKeyDictionary[Any, list[WritingCursor]]] = WeakKeyDictionary()

    def execute(self, *args: Any, **kwargs: Any) -> Self:
        super().execute(*args, **kwargs)
        self._count()
        return self

    def executemany(self, *args: Any, **kwargs: Any) -> None:
        super().executemany(*args, **kwargs)
        self._count()

    def send(self, *args: Any) -> None:
        super().send(*args)
        self._sent.setdefault(self.connection, []).append(self)

    def send_many(self, *args: Any) -> None:
        super().send_many(*args)
        self._sent.setdefault(self.connection, []).append(self)

    def catch_up(self) -> None:
        sent = self._sent.pop(self.connection, [])
        super().catch_up()
        for cursor in sent:
            cursor._count()

    def _count(self) -> None:
        if (self.statusmessage or "").startswith(("INSERT", "UPDATE", "DELETE")):
            WritingCursor.rows_written += abs(self.rowcount)


class Databases:
    """One database for each path of a file that SQLite would have."""

    def __init__(self, server: str) -> None:
        self._server = sa.make_url(server)
        self._count = 0
        self._names: dict[Path, str] = {}
        self._idle: list[str] = []
        self._single: set[str] = set()
        self._own: dict[str, psycopg.Connection[Any]] = {}
        self._emptying: dict[str, psycopg.Connection[Any]] = {}
        self._connections: list[psycopg.Connection[Any]] = []
        sa.event.listen(sa.pool.Pool, "connect", self._connected)
        atexit.register(self._drop_all)

    def migrated(self, path: Path) -> str:
        """The URL of an empty database of the present schema; one that is there already stays as it is."""
        if path not in self._names:
            self._names[path] = self._idle.pop() if self._idle else self._create(self._template)
        return self.url(path)

    def bare(self, path: Path) -> str:
        """The URL of a database without tables."""
        self._names[path] = self._create("template0")
        self._single.add(self._names[path])
        return self.url(path)

    def copy(self, path: Path, to: Path) -> str:
        """The URL of a database with the schema and the rows of another one.

        One that may not have the present schema is cut off from whoever uses it.
        """
        if self._names[path] in self._single:
            self.close(self._names[path])
            self._names[to] = self._create(self._names[path])
            self._single.add(self._names[to])
            return self.url(to)
        url, rows, copy = self.migrated(to), self.connection(path), self.connection(to)
        # One that was just made may have rows of its migrations.
        copy.execute(EMPTY_ALL)
        with rows.transaction(), copy.transaction():
            rows.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            filled = {name for (name,) in rows.execute(FILLED)}
            for table in TABLES:
                if table.name in filled:
                    _copy_rows(rows, copy, Identifier(table.name))
        return url

    def replace(self, path: Path, by: Path) -> None:
        """From now on the one database is the other; the URL stays."""
        name, other = self._names[path], self._names.pop(by)
        for one in (name, other):
            self.close(one)
        self._drop(name)
        self._admin.execute(SQL("ALTER DATABASE {} RENAME TO {}").format(Identifier(other), Identifier(name)))

    def end_connections(self, path: Path) -> None:
        """End all connections to a database, as a server does that restarts."""
        name = self._names[path]
        self._terminate(name, ENDED_WITHIN_MS)
        if own := self._own.pop(name, None):
            own.close()

    def allow_connections(self, path: Path, *, allowed: bool) -> None:
        """Let the server take connections to a database, or refuse them and end all that are there."""
        statement = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        self._admin.execute(
            statement.format(Identifier(self._names[path]), SQL("true" if allowed else "false"))
        )
        if not allowed:
            self.end_connections(path)

    def url(self, path: Path) -> str:
        """URL of the database of that path."""
        url = self._server.set(database=self._names[path])
        return url.render_as_string(hide_password=False)

    def connection(self, path: Path) -> psycopg.Connection[Any]:
        """A connection of nobody else's to it."""
        name = self._names[path]
        if name not in self._own:
            self._own[name] = self._connect(name, autocommit=True)
        return self._own[name]

    def drop_later(self, name: str) -> None:
        """The schema of that database is not what it was: no other test gets it."""
        self._single.add(name)

    def end(self, folder: Path) -> None:
        """Take back all databases below a folder: whatever is connected to them is cut off."""
        for path in [path for path in self._names if path.is_relative_to(folder)]:
            name = self._names.pop(path)
            if name in self._single:
                self.close(name)
                self._single.discard(name)
                self._drop(name)
            else:
                self._cut_off(name)
                self._empty(name)
                self._idle.append(name)

    def close(self, name: str) -> None:
        """End all connections to a database, of this process and of others."""
        if name in self._emptying:
            self._emptying.pop(name).close()
        self._cut_off(name)

    def _cut_off(self, name: str) -> None:
        if name in self._own:
            self._own.pop(name).close()
        for connection in self._connections:
            if not connection.closed and connection.info.dbname == name:
                connection.close()
        self._connections = [connection for connection in self._connections if not connection.closed]
        self._terminate(name)

    def _terminate(self, name: str, wait_ms: int = 0) -> None:
        """Let the server end all connections to a database but the one that empties it."""
        emptying = self._emptying[name].info.backend_pid if name in self._emptying else 0
        self._admin.execute(
            "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
            [wait_ms, name, emptying],
        )

    def _connected(self, connection: Any, _record: Any) -> None:
        if isinstance(connection, psycopg.Connection):
            connection.cursor_factory = WritingCursor
            self._connections.append(connection)

    @cached_property
    def _admin(self) -> psycopg.Connection[Any]:
        return self._connect(str(self._server.database), autocommit=True)

    @cached_property
    def _template(self) -> str:
        name = self._create("template0")
        store = Store.open(self._server.set(database=name).render_as_string(hide_password=False))
        schema.upgrade(store)
        store.close()
        return name

    def _create(self, template: str) -> str:
        self._count += 1
        name = f"zonesched_test_{os.getpid()}_{self._count}"
        statement = SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(template))
        self._admin.execute(statement)
        return name

    def _empty(self, name: str) -> None:
        # To connect takes longer than to empty all tables: the connection stays for the next test.
        if name not in self._emptying:
            self._emptying[name] = self._connect(name, autocommit=True)
        self._emptying[name].execute(EMPTY_ALL)

    def _connect(self, name: str, **options: Any) -> psycopg.Connection[Any]:
        url = self._server.set(drivername="postgresql", database=name)
        return psycopg.connect(url.render_as_string(hide_password=False), **options)

    def _drop(self, name: str) -> None:
        self._admin.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))

    def _drop_all(self) -> None:
        # A server that is gone has taken them with it.
        with contextlib.suppress(psycopg.Error):
            for number in range(1, self._count + 1):
                self._drop(f"zonesched_test_{os.getpid()}_{number}")
            self._admin.close()


def _copy_rows(source: psycopg.Connection[Any], target: psycopg.Connection[Any], table: Identifier) -> None:
    with (
        source.cursor().copy(SQL("COPY {} TO STDOUT (FORMAT binary)").format(table)) as out,
        target.cursor().copy(SQL("COPY {} FROM STDIN (FORMAT binary)").format(table)) as into,
    ):
        for piece in out:
            into.write(piece)


@cache
def databases() -> Databases:
    """Databases of this process, on the server that SERVER names."""
    return Databases(SERVER)
