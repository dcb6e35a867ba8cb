"""Open stores for tests: statements are compiled once per process, and nothing waits for the disk."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect, Engine

from zonesched.store.store import Store

_dialects: dict[str, Dialect] = {}
_statements: dict[Any, Any] = {}


def open_store(url: str) -> Store:
    """Open the store of a database that only tests use.

    Processes die in tests, machines do not: SQLite runs with synchronous=OFF.
    """
    store = Store.open(url)
    sa.event.listen(store.engine, "connect", _stop_syncing)
    store.engine = sharing_statements(store.engine)
    return store


def _stop_syncing(connection: Any, _record: Any) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA synchronous=OFF")


def sharing_statements(engine: Engine) -> Engine:
    """Return the engine with the compiled statements of all others of this process."""
    # Compiled statements are kept by dialect: engines share them only if they share that, too.
    if engine.dialect.name not in _dialects:
        with engine.connect():
            # The first connection completes the dialect.
            _dialects[engine.dialect.name] = engine.dialect
    engine.dialect = engine.pool._dialect = _dialects[engine.dialect.name]
    return engine.execution_options(compiled_cache=_statements)
