"""Open stores for tests: statements are compiled once per process, and nothing waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Dialect, Engine

from zonesched.store.store import Store, Transaction

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


def statements_written_by(store: Store, act: Callable[[], object]) -> list[str]:
    """Return the SQL text of each statement that runs in a write of SQLite while a test acts."""
    return _statements_in(store, "write", act)


def statements_read_by(store: Store, act: Callable[[], object]) -> list[str]:
    """Return the SQL text of each statement that runs in a read of SQLite while a test acts."""
    return _statements_in(store, "read", act)


def _statements_in(store: Store, kind: str, act: Callable[[], object]) -> list[str]:
    found: list[str] = []
    run = getattr(store, kind)

    def noted(fn: Callable[[Transaction], object]) -> object:
        def traced(tx: Transaction) -> object:
            rows: Any = tx.connection.driver_connection
            rows.set_trace_callback(found.append)
            try:
                return fn(tx)
            finally:
                rows.set_trace_callback(None)

        return run(traced)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, kind, noted)
        act()
    return found
