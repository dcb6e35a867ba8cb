"""On which database tests run, and which of them run there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.postgresql import SERVER, databases

HERE = Path(__file__).parent
ELSEWHERE = "runs on PostgreSQL alone: ./run_tests.sh --postgresql"
ONCE = {
    "test_api_app",
    "test_api_roles",
    "test_blob_sizes",
    "test_boot_times",
    "test_deadlines",
    "test_dry_run",
    "test_exactness",
    "test_filter_choice",
    "test_info",
    "test_lying_child",
    "test_noauth",
    "test_privacy",
    "test_rotation",
    "test_select_api",
    "test_simulation",
    "test_why",
}
"""Modules that have zones, and are about what no database changes: calls, choices, times, words."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL, what works with no database and what is about SQLite is not run a second time."""
    if not SERVER:
        for item in items:
            if item.get_closest_marker("postgresql"):
                item.add_marker(pytest.mark.skip(reason=ELSEWHERE))
        return
    left_out = [item for item in items if item.get_closest_marker("sqlite") or not has_rows(item.path.stem)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@cache
def has_rows(module: str) -> bool:
    """Whether a module of tests can come to a database, by what it and the modules beside it import."""
    if module == "migrated":
        return True
    if module in ONCE:
        return False
    path = HERE / f"{module}.py"
    if not path.exists():
        return False
    imported = {
        name.removeprefix("tests.").split(".")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (name := node.module or "").startswith("tests.")
    }
    return any(has_rows(name) for name in sorted(imported - {module}))


@pytest.fixture(autouse=SERVER != "")
def _take_databases_back(request: pytest.FixtureRequest) -> Iterator[None]:
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None:
        databases().end(folder)
