"""The repository itself: what is promised about its files holds."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

import zonesched
from zonesched import conf
from zonesched.store.prepared import Prepared

CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "zonesched"
MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def trees() -> dict[Path, ast.Module]:
    """The package's modules, parsed: not at import, which every worker does."""
    return {path: ast.parse(path.read_text()) for path in MODULES}


CHECKED_AT_START_ONLY = {"allow_unverified_services"}
"""Options whose only effect is that a configuration is refused, warned of, or accepted."""

SEAMS = {
    "compute/watchdog.py": "a program of its own, which acts while its agent is dead",
    "seams.py": "the seams themselves",
    "zones/resolver.py": "getaddrinfo takes no time limit, so a thread is left behind with it",
}
OF_THE_MACHINE = re.compile(
    r"time\.(time|sleep|monotonic|perf_counter)|random\.\w+|secrets\.\w+|os\.urandom|uuid\.uuid[14]"
    r"|(threading\.)?(Thread|Timer)|ThreadPoolExecutor|datetime\.(now|utcnow|today)"
)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True).stdout
    return [CHECKOUT / name for name in listed.decode().split("\0") if name and (CHECKOUT / name).is_file()]


def names_in(path: Path) -> set[str]:
    """Attributes and texts of a module: the ways in which an option is read."""
    found: set[str] = set()
    for node in ast.walk(trees()[path]):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_every_option_is_read_somewhere() -> None:
    # The rules for the URLs of services name options, too, and use none of them.
    readers = [path for path in MODULES if path.parent.name != "conf" and path.stem != "remote_services"]
    read = set[str]().union(*map(names_in, readers))
    unread = {option.dest for option in conf.ALL} - read
    assert unread == CHECKED_AT_START_ONLY


STORE = "zonesched.store"


def store_names_used_in(tree: ast.Module) -> set[tuple[str, str]]:
    """Module and name of all that a module takes from the modules of the store."""
    modules: dict[str, str] = {}
    used: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == STORE:
            modules |= {alias.asname or alias.name: f"{STORE}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{STORE}."):
            used |= {(str(node.module), alias.name) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            used.add((modules[node.value.id], node.attr))
    return used


def is_expression(module: str, name: str) -> bool:
    """Tell whether a name of the store is part of a statement, or a function that takes or returns one."""
    value = getattr(import_module(module), name, None)
    if isinstance(value, sa.sql.ClauseElement | ReadOnlyColumnCollection | Prepared):
        return True
    annotations = getattr(value, "__annotations__", {}) if inspect.isfunction(value) else {}
    return any("sa." in str(annotation) for annotation in annotations.values())


def test_statements_are_written_in_the_store_alone() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), name)
        for path, tree in trees().items()
        if not path.is_relative_to(PACKAGE / "store")
        for name in sorted(store_names_used_in(tree))
        if is_expression(*name)
    ]
    assert found == []


def test_only_the_seams_sleep_start_threads_read_time_or_draw() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), call)
        for path, tree in trees().items()
        if str(path.relative_to(PACKAGE)) not in SEAMS
        for call in (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
        if OF_THE_MACHINE.fullmatch(call)
    ]
    assert found == []


def test_each_module_says_what_it_is_and_fits_in_a_head() -> None:
    for path, tree in trees().items():
        text = path.read_text()
        assert ast.get_docstring(tree), path
        assert len(text.splitlines()) <= 400, path
        assert path.stem not in ("utils", "common", "helpers"), path
        assert not re.search(r"\b(TODO|FIXME|XXX)\b", text), path


def test_the_changelog_begins_with_this_version() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    [newest, *_] = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\]", (CHECKOUT / "CHANGELOG.md").read_text())
    assert newest == project["version"] == zonesched.__version__


def test_the_package_says_that_it_has_types() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["zonesched"]
    assert (PACKAGE / "py.typed").is_file()


def test_the_license_is_the_one_that_is_declared() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    text = (CHECKOUT / "LICENSE").read_text()
    assert project["license"] == {"text": "Apache-2.0"}
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text


@pytest.mark.parametrize("name", ["run_zone.sh", "run_tests.sh", ".ci/run", ".ci/lock"])
def test_the_scripts_can_be_run(name: str) -> None:
    assert os.access(CHECKOUT / name, os.X_OK)
    subprocess.run(["bash", "-n", str(CHECKOUT / name)], check=True)


def test_no_path_of_a_machine_stands_in_a_file() -> None:
    absolute = re.compile(r"(?<![\w./<>{}$-])/(root|work|home/\w+|Users/\w+)/")
    found = [
        f"{path.relative_to(CHECKOUT)}: {line.strip()}"
        for path in tracked_files()
        if path.suffix not in (".png", ".svg", ".gz")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if absolute.search(line)
    ]
    assert found == []


def test_what_runs_leave_behind_is_not_tracked() -> None:
    ignored = subprocess.run(
        [
            "git",
            "check-ignore",
            ".venv/",
            ".venv.lock",
            "demo-state/",
            "zone-state/",
            "docs/_build/",
            "docs/reference/",
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert len(ignored.stdout.split()) == 6
