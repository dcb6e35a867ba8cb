"""The check that nothing a test started outlives it."""

from __future__ import annotations

import threading

import pytest

pytest_plugins = ["pytester"]

LEAKING = """
import threading

def test_leaks():
    threading.Thread(target=threading.Event().wait, args=(0.5,), name="left-over", daemon=True).start()

def test_joins():
    thread = threading.Thread(target=int)
    thread.start()
"""


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
