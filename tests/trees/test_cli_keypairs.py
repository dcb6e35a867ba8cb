"""Commands for key pairs and quotas, against a real zone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.command import TreeCommand
from tests.builders.tree import Tree
from zonesched.cli.quota import FIELDS

pytestmark = pytest.mark.once

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIR8NN31+uZVnUHOsErnpvtav8YLp4KkCLaIRa00BkHY me@here"


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> TreeCommand:
    tree = Tree(tmp_path)
    tree.add("root")
    return TreeCommand(capsys, tree, "root")


def test_a_key_pair_is_imported_listed_shown_and_removed(command: TreeCommand, tmp_path: Path) -> None:
    file = tmp_path / "id.pub"
    file.write_text(KEY + "\n")

    assert command("keypair", "create", "my key", "--public-key", str(file)) == 0
    fingerprint = command.out.strip()
    assert command("keypair", "list", "-o", "value") == 0
    listed = command.out.split(maxsplit=3)
    assert command("keypair", "show", "my key", "--json") == 0
    shown = json.loads(command.out)["keypair"]

    assert listed[-1].split()[-1] == fingerprint == shown["fingerprint"]
    assert shown["public_key"].startswith("ssh-ed25519 AAAA")
    assert command("keypair", "delete", "my key") == 0
    assert command("keypair", "show", "my key") == 4
    assert "no such key pair" in command.err


def test_a_quota_is_set_listed_and_reset(command: TreeCommand) -> None:
    assert command("quota", "list", "p1", "--json") == 0
    before = json.loads(command.out)["quota_set"]["instances"]
    assert command("quota", "set", "p1", "--instances", "7", "-o", "json") == 0
    assert json.loads(command.out).keys() == set(FIELDS)
    assert command("quota", "list", "p1", "-o", "value") == 0
    assert "instances 7 0" in [" ".join(line.split()) for line in command.lines]

    assert command("quota", "reset", "p1") == 0
    assert command("quota", "list", "p1", "--json") == 0
    assert json.loads(command.out)["quota_set"]["instances"] == before
    assert command("quota", "set", "p1", "--instances", "-1") == 0
    assert command("quota", "list", "p1", "--json") == 0
    assert json.loads(command.out)["quota_set"]["instances"]["limit"] == -1
    assert command("quota", "set", "p1", "--instances", "-2") == 2


def test_limits_are_shown_without_openstacks_names(command: TreeCommand) -> None:
    assert command("limit", "show") == 0

    assert "project_instances" in command.out
    assert "maxTotal" not in command.out
