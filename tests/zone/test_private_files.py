"""A zone's files are its own user's: made so, and refused where others may use them."""

from __future__ import annotations

import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from zonesched import conf
from zonesched.conf.private_files import shared_secrets
from zonesched.errors import ConfigError
from zonesched.serving.run_zone import prepare

KEY = "ab" * 32

pytestmark = pytest.mark.sqlite


def start(folder: Path) -> None:
    prepare(conf.load((), {"state_path": str(folder), "auth_strategy": "noauth"}))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_whatever_a_zone_makes_is_for_its_user_only(tmp_path: Path) -> None:
    start(tmp_path / "state")
    made = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert (tmp_path / "state/zone.sqlite") in made
    assert [path for path in made if mode(path) & 0o077] == []


@pytest.mark.parametrize(("name", "shared"), [("", 0o755), ("", 0o710), ("zone.sqlite", 0o644)])
def test_a_folder_or_database_that_others_may_use_is_refused_with_the_command_that_helps(
    tmp_path: Path, name: str, shared: int
) -> None:
    state = tmp_path / "my state"
    start(state)
    (state / name).chmod(shared)
    with pytest.raises(ConfigError, match=rf"\(mode {shared:o}\)") as refused:
        start(state)
    assert refused.value.field == ("database_url" if name else "state_path")
    [command] = refused.value.message.partition("Run: ")[2].splitlines()
    assert mode(state / name) == shared
    subprocess.run(shlex.split(command), check=True)
    start(state)


def test_a_configuration_that_sets_keys_and_that_all_may_read_is_named(tmp_path: Path) -> None:
    with_key, without = tmp_path / "keys.conf", tmp_path / "plain.conf"
    with_key.write_text(f"[DEFAULT]\nsecret_encryption_key = {KEY}\n")
    without.write_text("[DEFAULT]\nzone_name = one\nsecret_encryption_key =\n")
    for path in (with_key, without):
        path.chmod(0o644)
    [line] = shared_secrets([str(with_key), str(without)])
    assert line.startswith(f"{with_key} sets secret_encryption_key")
    assert KEY not in line
    subprocess.run(shlex.split(line.partition("Run: ")[2]), check=True)
    assert shared_secrets([str(with_key), str(without)]) == []
