"""The plans that PostgreSQL makes for the statements of a test."""

from __future__ import annotations

from typing import Any

import pytest

from zonesched.store.postgresql import PipelinedCursor


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
