"""Files of an instance's folder that are JSON and not what was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zonesched.compute.instance_folder import InstanceFolder
from zonesched.compute.instance_records import FolderDamaged
from zonesched.compute.machine import Key


@pytest.fixture
def folder(tmp_path: Path) -> InstanceFolder:
    prepared = InstanceFolder(tmp_path, Key("a-1", 1))
    prepared.prepare({"environment": {}})
    return prepared


@pytest.mark.parametrize("wrong", [{"pid": "text"}, {"started": 1.5}, {"boot_id": None}])
def test_a_record_with_a_wrong_type_is_damaged_and_keeps_its_folder(
    folder: InstanceFolder, wrong: dict[str, object]
) -> None:
    record = {"pid": 7, "started": 1, "boot_id": "b", **wrong}
    (folder.path / "process.json").write_text(json.dumps(record))

    with pytest.raises(FolderDamaged, match=f"process.json is damaged .*{next(iter(wrong))} is"):
        folder.put_aside()

    assert folder.path.is_dir()


def test_a_mark_of_a_move_with_a_wrong_type_is_one_of_the_likeliest_move(folder: InstanceFolder) -> None:
    (folder.path / "leaving.json").write_text('{"attempt": "soon"}')

    assert folder.leaves_for() == 2


def test_a_reached_state_with_a_wrong_type_is_damaged(folder: InstanceFolder) -> None:
    line = {"generation": "1", "power": "running", "reboots": 0, "rebuilds": 0}
    (folder.path / "reached.json").write_text(json.dumps(line))

    with pytest.raises(FolderDamaged, match="generation is '1'"):
        folder.reached()
