"""Nothing outlives its test, modules of which no test runs are not read, and slow tests come first."""

from __future__ import annotations

import threading

import pytest
from hypothesis import settings

from tests.conftest import senders_of_same, slow_first

pytest_plugins = ["pytester"]

LEAKING = """
import threading

def test_leaks():
    threading.Thread(target=threading.Event().wait, args=(0.5,), name="left-over", daemon=True).start()

def test_joins():
    thread = threading.Thread(target=int)
    thread.start()
"""


@pytest.fixture(autouse=True)
def _without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave installed plugins out of the runs within these tests: loading them takes most of the time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_a_thread_that_outlives_its_test_is_an_error_that_names_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.conftest.THREADS_END_S", 0.1)
    pytester.makeconftest("from tests.conftest import _nothing_outlives_its_test\n")
    pytester.makepyfile(LEAKING)

    outcome = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")

    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(["*threads outlive the test: left-over*"])
    for thread in threading.enumerate():
        if thread.name == "left-over":
            thread.join()


def test_a_module_that_is_slow_as_a_whole_is_read_only_if_slow_tests_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_ignore_collect\n")
    pytester.makepyfile(
        test_slow="import pytest\npytestmark = [pytest.mark.once, pytest.mark.slow]\n1 / 0\n",
        test_quick="def test_one():\n    pass\n",
    )

    fast = pytester.runpytest_inprocess("-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist")
    every = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")

    fast.assert_outcomes(passed=1)
    every.assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("workers", "order"),
    [
        (1, ["a0", "a1", "b0", "c0", "d0", "q0", "q1", "q2", "q3", "q4"]),
        # The parts of two workers are 5 and 5 tests, those of three 3, 3 and 4.
        (2, ["a0", "a1", "c0", "q0", "q1", "d0", "b0", "q2", "q3", "q4"]),
        (3, ["a0", "a1", "d0", "b0", "q0", "q1", "c0", "q2", "q3", "q4"]),
    ],
)
def test_each_worker_begins_with_slow_modules(
    pytester: pytest.Pytester, workers: int, order: list[str]
) -> None:
    slow, quick = "import pytest\npytestmark = pytest.mark.slow\n", ""
    for name, tests, mark in (
        ("a", 2, slow),
        ("b", 1, slow),
        ("c", 1, slow),
        ("d", 1, slow),
        ("q", 5, quick),
    ):
        pytester.makepyfile(
            **{f"test_{name}": mark + "".join(f"def test_{name}{n}(): 0\n" for n in range(tests))}
        )
    items, _ = pytester.inline_genitems("-p", "no:cacheprovider", "-p", "no:xdist")

    assert [item.name.removeprefix("test_") for item in slow_first(items, workers)] == order


def test_tests_whose_statements_others_send_are_found(pytester: pytest.Pytester) -> None:
    variants = "@pytest.mark.parametrize('n', [0, 1, 2])\n"
    tests = f"""
import pytest
def test_single(): 0
{variants}def test_alike(n): 0
{variants}@pytest.mark.own_statements
def test_each(n): 0
class TestOne:
    {variants}    def test_in_class(self, n): 0
"""
    for folder in ("trees", "zone"):
        pytester.mkdir(folder).joinpath(f"test_of_{folder}.py").write_text(tests)
    module = """
import pytest
pytestmark = pytest.mark.same_statements
def test_same(): 0
@pytest.mark.own_statements
def test_own(): 0
"""
    pytester.path.joinpath("zone", "test_same.py").write_text(module)
    items, _ = pytester.inline_genitems("-p", "no:cacheprovider", "-p", "no:xdist")

    found = senders_of_same(items)

    assert [item.nodeid for item in items if item in found] == [
        *(
            f"trees/test_of_trees.py::{name}[{n}]"
            for name in ("test_alike", "TestOne::test_in_class")
            for n in (1, 2)
        ),
        "zone/test_same.py::test_same",
    ]


def test_an_example_may_take_long_on_a_busy_machine() -> None:
    assert settings().deadline is None
