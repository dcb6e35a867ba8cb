"""The id of an agent in its state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from zonesched.compute.agent_id import of_folder


def test_an_agent_keeps_its_id_and_another_folder_has_another(tmp_path: Path) -> None:
    clock = FakeClock()

    first = of_folder(tmp_path / "state" / "agent", clock)

    assert of_folder(tmp_path / "state" / "agent", clock) == first
    assert of_folder(tmp_path / "other", clock) != first


@pytest.mark.parametrize("left", ["", "\x00\x00\x00", "no id"])
def test_a_file_that_a_power_cut_has_damaged_gets_a_new_id(tmp_path: Path, left: str) -> None:
    (tmp_path / "agent-id").write_text(left)

    made = of_folder(tmp_path, FakeClock())

    assert of_folder(tmp_path, FakeClock()) == made
    assert [path.name for path in tmp_path.iterdir()] == ["agent-id"]
