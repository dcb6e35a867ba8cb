"""Commands about services, against a zone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.command import TreeCommand
from tests.builders.tree import Tree, a_host
from zonesched.cli.table import short_ids


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.add("root", hosts_=[a_host("h1"), a_host("h2")])
    return tree


@pytest.fixture
def command(tree: Tree, capsys: pytest.CaptureFixture[str]) -> TreeCommand:
    return TreeCommand(capsys, tree, "root")


@pytest.mark.parametrize("wanted", ["../flavors/small", "../flavors/small?x=1", "../flavors/small#x"])
def test_what_names_no_service_calls_no_other_url(command: TreeCommand, wanted: str) -> None:
    assert command("flavor", "create", "f", "--id", "small", "--vcpus", "1", "--ram", "64") == 0

    code = command("service", "delete", wanted)

    assert (code, command.out) == (4, "")
    assert command("flavor", "show", "small") == 0


@pytest.mark.parametrize("wanted", ["", "..", "#h1", "h3"])
@pytest.mark.parametrize("change", ["disable", "force-down", "delete"])
def test_a_service_that_there_is_not_is_not_found(command: TreeCommand, change: str, wanted: str) -> None:
    assert command("service", change, wanted) == 4
    assert command.err.count("\n") == 1


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_service_is_found_by_the_id_that_the_table_shows(command: TreeCommand, is_whole: bool) -> None:
    command("service", "list", "-o", "value", "-c", "id", "-c", "host")
    ids = {host: id for id, host in map(str.split, command.lines)}

    wanted = ids["h2"] if is_whole else short_ids(list(ids.values()))[ids["h2"]]

    assert command("service", "force-down", wanted) == 0
    assert command("service", "list", "--host", "h2", "-o", "value", "-c", "forced_down") == 0
    assert command.lines == ["yes"]
