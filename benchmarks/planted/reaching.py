"""The fast tests that reach each line of the package, as coverage contexts say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coverage import CoverageData

from benchmarks.planted.names import uses_of_names

WHEN = ("|setup", "|run", "|teardown")
"""Parts of a test, by which pytest-cov names its contexts."""


class Reaching:
    """Knows for each line of a checkout's package the tests that reach it."""

    def __init__(self, checkout: Path, measured: Path) -> None:
        self._checkout = checkout
        self._data = CoverageData(str(measured))
        self._data.read()
        self._run: dict[str, Mapping[int, Sequence[str]]] = {}
        self._lines: dict[str, Mapping[int, Sequence[str]]] = {}
        sources = sorted((checkout / "zonesched").rglob("*.py"))
        self._uses = uses_of_names({str(path.relative_to(checkout)): path.read_text() for path in sources})

    def lines(self, path: str) -> Mapping[int, Sequence[str]]:
        """Return by line of a file the tests that reach it.

        A name that a module gives at its import, as that of a statement of SQL, is reached by who uses it.
        """
        if path not in self._lines:
            reached = dict(self._reached(path))
            for (of, line), used_in in self._uses.items():
                if of == path:
                    tests = {test for at in used_in for test in self._reached(at.path).get(at.number, ())}
                    reached.setdefault(line, sorted(tests))
            self._lines[path] = {line: tests for line, tests in reached.items() if tests}
        return self._lines[path]

    def tests(self, path: str, line: int) -> list[str]:
        """Return the tests that reach a line, those first that reach the fewest lines of its file."""
        of_file = self.lines(path)
        reached: dict[str, int] = {}
        for tests in of_file.values():
            for test in tests:
                reached[test] = reached.get(test, 0) + 1
        return sorted(of_file.get(line, ()), key=lambda test: (reached[test], test))

    def _reached(self, path: str) -> Mapping[int, Sequence[str]]:
        """Return by line of a file the tests that run it."""
        if path not in self._run:
            found = self._data.contexts_by_lineno(str(self._checkout / path))
            by_line = {
                line: sorted({_test(context) for context in some if context}) for line, some in found.items()
            }
            self._run[path] = {line: tests for line, tests in by_line.items() if tests}
        return self._run[path]


def measure(checkout: Path, measured: Path) -> None:
    """Run the fast tests once and keep which lines each reaches. Raises CalledProcessError."""
    covered = ["--cov=zonesched", "--cov-context=test", "--cov-report="]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", "not slow", *covered]
    environment = {"COVERAGE_FILE": str(measured)}
    subprocess.run(command, cwd=checkout, check=True, env={**os.environ, **environment})


def _test(context: str) -> str:
    """Return the test of a context; what a module's fixture reaches belongs to the test that asked first."""
    for when in WHEN:
        context = context.removesuffix(when)
    return context
