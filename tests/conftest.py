"""Timeouts of tests, the choice of those that run on PostgreSQL, and the end of what each test started."""

from __future__ import annotations

import ast
import gc
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.builders.postgresql import SERVER, databases

ROOT = Path(__file__).parents[1]
SLOW_TIMEOUT_S = 900
THREADS_END_S = 30.0
ELSEWHERE = "runs on PostgreSQL alone: ./run_tests.sh --postgresql"


# Nothing that is imported and collected is garbage.
gc.disable()

# How long an example takes says how busy the machine is.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for runs that leave out what others play."""
    parser.addoption(
        "--each-statement-once",
        action="store_true",
        help="Leave out modules marked `same_statements`, and of each test of trees all but one variant, "
        "unless marked `own_statements`.",
    )
    parser.addoption(
        "--first-variants",
        action="store_true",
        help="Of each test with real zones, leave out all variants but the first.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Have what was imported and collected left alone by garbage collection: a sixth of the suite's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules of which no test would run, before they import what they alone need.

    These are slow modules where slow tests are left out, and on PostgreSQL those of tests without a database.
    """
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    if config.getoption("markexpr") == "not slow" and is_slow_as_a_whole(collection_path):
        return True
    return (SERVER and not uses_database(_module_of(collection_path))) or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give slow tests their time, and begin with them. On PostgreSQL, leave out those `sqlite` or `once`."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
    left_out: set[pytest.Item] = set()
    if SERVER:
        left_out = {
            item for item in items if item.get_closest_marker("sqlite") or item.get_closest_marker("once")
        }
        if config.getoption("each_statement_once"):
            left_out |= senders_of_same([item for item in items if item not in left_out])
    else:
        for item in items:
            if item.get_closest_marker("postgresql"):
                item.add_marker(pytest.mark.skip(reason=ELSEWHERE))
    if config.getoption("first_variants"):
        left_out |= further_variants([item for item in items if item.path.parent.name != "units"])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = slow_first(items, workers)


def senders_of_same(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return tests whose statements others send too.

    These are modules marked `same_statements`, and all but the first variant of each test of trees, without
    those marked `own_statements`.
    """
    asked = [item for item in items if not item.get_closest_marker("own_statements")]
    same = {item for item in asked if item.get_closest_marker("same_statements")}
    of_trees = [item for item in asked if item not in same and item.path.parent.name == "trees"]
    return same | further_variants(of_trees)


def further_variants(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return all but the first variant of each test."""
    seen: set[str] = set()
    found: set[pytest.Item] = set()
    for item in items:
        name, bracket, _ = item.nodeid.partition("[")
        if bracket and name in seen:
            found.add(item)
        seen.add(name)
    return found


def slow_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Put slow tests first in the part of each worker of pytest-xdist, which gets so many tests in a row.

    What a worker takes from others in the end is then quick: none ends with a slow test while the others have
    nothing to do. Modules are dealt out whole, as they share fixtures. Every other worker takes its own in
    reverse, so that not all start real processes at one time.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = [item for item in items if not item.get_closest_marker("slow")]
    modules = [list(tests) for _, tests in groupby(slow, key=lambda item: item.path)]
    ordered: list[pytest.Item] = []
    for number in range(workers):
        end = len(ordered) + (len(items) - len(ordered)) // (workers - number)
        own = modules[number::workers]
        ordered += chain.from_iterable(reversed(own) if number % 2 else own)
        room = max(0, end - len(ordered))
        ordered += others[:room]
        del others[:room]
    return ordered


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def uses_database(module: str) -> bool:
    """Tell whether a module of tests imports `tests.builders.migrated`, by itself or through others."""
    if module == "tests.builders.migrated":
        return True
    path = (ROOT / module.replace(".", "/")).with_suffix(".py")
    if not path.exists():
        return False
    return any(uses_database(name) for name in sorted(_imported(path) - {module}))


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            found.add(node.module or "")
            found.update(f"{node.module}.{name.name}" for name in node.names)
    return found


def is_slow_as_a_whole(path: Path) -> bool:
    """Tell whether a module marks all its tests as slow."""
    return re.search(r"^pytestmark = .*\bpytest\.mark\.slow\b", path.read_text(), re.MULTILINE) is not None


def _end(thread: threading.Thread, ends_at: float) -> None:
    """Wait for the end of a thread, which may not have begun yet: on a busy machine that takes a while."""
    while (left_s := ends_at - time.monotonic()) > 0:
        with suppress(RuntimeError):
            thread.join(left_s)
            return
        # Nothing tells when a thread begins that another one is starting.
        time.sleep(0.001)


def _log_settings() -> tuple[int, bool]:
    logger = logging.getLogger("zonesched")
    return logger.level, logger.propagate


@pytest.fixture(autouse=True)
def _nothing_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    before, heard, level = set(threading.enumerate()), _log_settings(), logging.getLogger().level
    yield
    # A program that a test starts in this process sets it for the lines that it logs.
    logging.getLogger().setLevel(level)
    # A thread that still writes would deadlock with the emptying of its database.
    left = [thread for thread in threading.enumerate() if thread not in before]
    ends_at = time.monotonic() + THREADS_END_S
    for thread in left:
        _end(thread, ends_at)
    if SERVER and folder is not None:
        databases().end(folder)
    alive = sorted(thread.name for thread in left if thread.is_alive())
    assert not alive, f"threads outlive the test: {', '.join(alive)}"
    assert _log_settings() == heard, "the logger of the package is not as the test found it"
