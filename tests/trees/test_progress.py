"""Work that follows rows goes on, or waits and says why; it never takes the same step for ever."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.builders.boots import a_small_tree, boot, counts, delete_all, rows
from zonesched.services import background
from zonesched.services.boot import provision
from zonesched.services.boot.boot_progress import Step, next_step


def test_a_boot_whose_instances_were_all_deleted_is_over(tmp_path: Path) -> None:
    # Given a boot that nobody has worked on
    tree = a_small_tree(tmp_path)
    root = tree.nodes["root"].zone
    reservation_id = boot(tree, num_instances=2)

    # When
    delete_all(tree)
    tree.settle()

    # Then
    assert counts(tree, reservation_id) == {"DELETED": 2}
    assert rows(tree, "root", "SELECT state FROM reservations") == [("settled",)]
    assert background.work_on_boots(root) > 0.0


@pytest.mark.timeout(30)
def test_a_boot_whose_step_changes_nothing_is_postponed_and_named_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a boot that is given a step with nothing to do
    tree = a_small_tree(tmp_path)
    root = tree.nodes["root"].zone
    reservation_id = boot(tree, num_instances=2)
    right_step = next_step
    monkeypatch.setattr(provision, "next_step", lambda *_, **__: Step.CLOSE)
    monkeypatch.setattr(provision._Boot, "_close", lambda self: None)

    # When
    with caplog.at_level(logging.ERROR):
        background.work_on_boots(root)

    # Then it waits
    (line,) = [record.getMessage() for record in caplog.records if reservation_id in record.getMessage()]
    assert "close changed nothing" in line
    assert background.work_on_boots(root) > 0.0
    assert counts(tree, reservation_id) == {"BUILD": 2}

    # And goes on where another step is found
    monkeypatch.setattr(provision, "next_step", right_step)
    tree.clock.advance(60)
    tree.poll()
    tree.settle()
    assert background.work_on_boots(root) > 0.0
    assert {row[2] for row in rows(tree, "root")} == {"confirmed"}
