"""The pinned versions: complete, by hash, and from no particular index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
NOT_PINNED = {"fuzz", "libvirt", "mutants"}
EXTRAS = [
    line
    for name, lines in PROJECT["optional-dependencies"].items()
    for line in lines
    if name not in NOT_PINNED
]
WANTED = {
    "constraints-run.txt": PROJECT["dependencies"],
    "constraints.txt": [*PROJECT["dependencies"], *EXTRAS],
}


def pins(name: str) -> dict[str, list[str]]:
    """Versions of each package that a file pins; a package may have one for each Python."""
    found: dict[str, list[str]] = {}
    for package, version in re.findall(
        r"(?m)^([\w.-]+)(?:\[[^\]]*\])?==(\S+)", (CHECKOUT / name).read_text()
    ):
        found.setdefault(canonicalize_name(package), []).append(version)
    return found


@pytest.mark.parametrize("name", WANTED)
def test_every_requirement_is_pinned_to_a_version_that_it_accepts(name: str) -> None:
    pinned = pins(name)
    for requirement in map(Requirement, WANTED[name]):
        if requirement.name == "zonesched":
            continue
        versions = pinned.get(canonicalize_name(requirement.name), [])
        accepted = [version for version in versions if requirement.specifier.contains(version)]
        assert versions, f"{requirement.name} is not in {name}: run .ci/lock"
        assert accepted == versions, f"{requirement} is pinned to {versions}: run .ci/lock"


def test_the_bindings_of_libvirt_are_pinned_by_hash_in_a_file_of_their_own() -> None:
    [requirement] = map(Requirement, PROJECT["optional-dependencies"]["libvirt"])
    text = (CHECKOUT / "constraints-libvirt.txt").read_text()
    found = re.fullmatch(r"libvirt-python==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}\n", text)
    assert found
    assert requirement.specifier.contains(found[1])


@pytest.mark.parametrize("name", WANTED)
def test_every_pin_has_hashes_and_names_no_index(name: str) -> None:
    text = (CHECKOUT / name).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) >= 30
    form = re.compile(r"[\w.-]+(\[[\w,-]+\])?==[\w.+!]+( +; [^#:]+?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [line[:80] for line in lines if not form.fullmatch(line.strip())] == []
    assert "://" not in text


def test_a_zone_runs_with_the_versions_that_the_tests_ran_with() -> None:
    tested, needed = pins("constraints.txt"), pins("constraints-run.txt")
    assert {name: tested[name] for name in needed} == needed


def test_the_environment_follows_the_pinned_versions() -> None:
    script = (CHECKOUT / ".ci/environment.sh").read_text()
    for name in WANTED:
        assert f'"{name}"' in script
