"""Modules that a process imports without need cost each of its starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

LARGE = {"alembic", "cryptography", "flask", "jinja2", "numpy", "oslo_config", "pydantic", "sqlalchemy"}
COMMAND = "from zonesched.cli.main import Session, run; run({!r}, Session())"
COMPLETION = """
from zonesched.cli.main import zonesched
from click.shell_completion import ShellComplete
ShellComplete(zonesched, {}, "zonesched", "").get_completions([], "ser")
"""


@pytest.mark.parametrize(
    ("start", "unused"),
    [
        pytest.param("import zonesched.compute.main", LARGE, id="agent"),
        pytest.param(COMMAND.format(["--help"]), LARGE | {"rich.console"}, id="list of commands"),
        pytest.param(COMPLETION, LARGE | {"rich.console"}, id="completion of a noun"),
    ],
)
def test_a_process_imports_no_large_package_that_it_does_not_use(start: str, unused: set[str]) -> None:
    script = f"{start}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert unused & set(done.stderr.split()) == set()
