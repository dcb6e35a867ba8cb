"""Databases for tests: SQLite files, or what stands for them on the PostgreSQL server that tests are given.

Those of the present schema are copied from one that was migrated once per process.
"""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.builders.postgresql import SERVER, WritingCursor, databases
from zonesched.store import schema
from zonesched.store.store import Store


def a_database(path: Path) -> str:
    """The URL of an empty database of the present schema; one that is there already stays as it is."""
    if SERVER:
        return databases().migrated(path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_template(), path)
    return f"sqlite:///{path}"


def a_bare_database(path: Path) -> str:
    """The URL of a database without tables."""
    return databases().bare(path) if SERVER else f"sqlite:///{path}"


def url_of(path: Path) -> str:
    """The URL of a database that is there."""
    return databases().url(path) if SERVER else f"sqlite:///{path}"


def ask(path: Path, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run plain SQL on a database, without any code of the package; `?` stands for a value."""
    if SERVER:
        return databases().connection(path).execute(statement.replace("?", "%s"), values).fetchall()
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def everything_in(path: Path) -> str:
    """All that stands in a database's tables, as text."""
    if not SERVER:
        with closing(sqlite3.connect(path)) as rows:
            return "\n".join(rows.iterdump())
    tables = ask(path, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return "\n".join(str(row) for (name,) in tables for row in ask(path, f'SELECT * FROM "{name}"'))


def copy_database(path: Path, to: Path) -> None:
    """Another database with all that the one has, while zones run on it."""
    if SERVER:
        databases().copy(path, to)
    elif not Path(f"{path}-wal").exists():
        # Nobody uses it.
        shutil.copy(path, to)
    else:
        to.touch(mode=0o600)
        with closing(sqlite3.connect(path)) as rows, closing(sqlite3.connect(to)) as copy:
            # To wait for the disk takes ten times as long as to copy.
            copy.execute("PRAGMA synchronous=OFF")
            rows.backup(copy)


def replace_database(path: Path, by: Path) -> None:
    """The one database is the other from now on; nobody may use it meanwhile."""
    if SERVER:
        databases().replace(path, by)
    else:
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        by.rename(path)


@contextmanager
def following(paths: Sequence[Path]) -> Iterator[Callable[[], bool]]:
    """Tell at each call whether zones of this process have changed a row since the last one."""
    with ExitStack() as ending:
        connections = (
            [] if SERVER else [ending.enter_context(closing(sqlite3.connect(path))) for path in paths]
        )

        def versions() -> list[int]:
            if SERVER:
                return [WritingCursor.rows_written]
            return [row[0] for each in connections for row in each.execute("PRAGMA data_version")]

        seen = versions()

        def changed() -> bool:
            nonlocal seen
            before, seen = seen, versions()
            return seen != before

        yield changed


@cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="zonesched-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    template = folder / "template.sqlite"
    store = Store.open(f"sqlite:///{template}")
    schema.upgrade(store)
    store.close()
    return template
