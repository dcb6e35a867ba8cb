"""Commands for flavors, against a real zone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.command import TreeCommand
from tests.builders.tree import Tree

pytestmark = pytest.mark.once


@pytest.mark.parametrize("wanted", ["f-1", "own"])
def test_a_flavor_that_is_not_public_is_changed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: str
) -> None:
    tree = Tree(tmp_path)
    sizes = {"vcpus": 1, "ram": 64, "disk": 1, "os-flavor-access:is_public": False}
    tree.add("root").client().post("/flavors", {"flavor": {"id": "f-1", "name": "own", **sizes}})
    command = TreeCommand(capsys, tree, "root")

    assert command("flavor", "set", wanted, "--extra", "a:b=c") == 0, command.err
    assert "a:b" in command.out
    assert command("flavor", "delete", wanted) == 0, command.err
    assert command("flavor", "show", wanted) == 4


@pytest.mark.parametrize("key", ["..", ".", "", "x/../..", "#x", "?x"])
def test_an_extra_spec_that_there_is_not_is_not_found_and_removes_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    command = TreeCommand(capsys, tree, "root")
    command("flavor", "create", "own", "--vcpus", "1", "--ram", "64", "--extra", "a=b")

    code = command("flavor", "set", "own", "--unset", key)

    assert (code, command.err.count("\n")) == (4, 1)
    assert command("flavor", "show", "own", "-c", "extra_specs", "-o", "json") == 0
    assert '"a": "b"' in command.out
