"""The plans that databases make for the statements of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zonesched.store.postgresql import PipelinedCursor
from zonesched.store.store import Store, Transaction


def record_plans(monkeypatch: pytest.MonkeyPatch, start: str, *, analyze: bool = False) -> list[str]:
    """Have each statement that begins with `start` explained before it runs; the lines go into the list.

    `analyze` runs the statement for its plan as well, and adds the number of rows of each step.
    """
    lines: list[str] = []
    execute = PipelinedCursor.execute

    def explained(self: PipelinedCursor, query: Any, params: Any = None, **options: Any) -> PipelinedCursor:
        if str(query).startswith(start):
            execute(self, f"EXPLAIN ({'ANALYZE' if analyze else 'VERBOSE'}) {query}", params)
            lines.extend(row[0] for row in self.fetchall())
        return execute(self, query, params, **options)

    monkeypatch.setattr(PipelinedCursor, "execute", explained)
    return lines


def sqlite_plans(store: Store, read: Callable[[Transaction], object]) -> list[str]:
    """Return the lines of SQLite's plans for the statements of a read."""
    statements: list[str] = []

    def traced(tx: Transaction) -> None:
        rows: Any = tx.connection.driver_connection
        rows.set_trace_callback(statements.append)
        try:
            read(tx)
        finally:
            rows.set_trace_callback(None)

    store.read(traced)
    return store.read(
        lambda tx: [
            line[3]
            for statement in statements
            for line in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}").all()
        ]
    )


def sqlite_steps(store: Store, read: Callable[[Transaction], object]) -> int:
    """Count, in hundreds, the instructions of SQLite's machine for a read."""
    counted: list[None] = []

    def measured(tx: Transaction) -> None:
        rows: Any = tx.connection.driver_connection
        rows.set_progress_handler(lambda: counted.append(None), 100)
        try:
            read(tx)
        finally:
            rows.set_progress_handler(None, 0)

    store.read(measured)
    return len(counted)
