"""A worker that was paused past its lease changes nothing when it wakes: another one has carried on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crashes import differences, heal
from tests.test_boot import a_small_tree
from tests.tree import Tree
from zonesched.services import background


class Pause:
    """Stops a zone's worker before its n-th write, while another worker of the zone takes over and ends."""

    def __init__(self, tree: Tree, at: int) -> None:
        self.happened = False
        self.rows: list[Any] = []
        self._tree, self._at, self._writes = tree, at, 0
        self._store = tree.nodes["root"].zone.store
        self._write = self._store.write
        self._store.write = self._paused  # type: ignore[method-assign]

    def _paused(self, fn: Callable[[Any], Any]) -> Any:
        self._writes += 1
        if self._writes == self._at:
            self.happened = True
            self.end()
            self._tree.clock.advance(61)
            self._tree.settle(1)
            self.rows = all_rows(self._tree)
        return self._write(fn)

    def end(self) -> None:
        """From now on nothing pauses."""
        self._store.write = self._write  # type: ignore[method-assign]


def all_rows(tree: Tree) -> list[Any]:
    """Everything the root has stored of boots."""
    tables = ("reservations", "instances", "placements")
    read = tree.nodes["root"].zone.store.read
    return [
        read(lambda tx, t=table: tx.exec_driver_sql(f"SELECT * FROM {t} ORDER BY 1, 2").fetchall())
        for table in tables
    ]


@pytest.mark.slow
def test_a_worker_paused_before_any_of_its_writes(tmp_path: Path) -> None:
    at, happened = 1, True
    while happened:
        at += 1
        (tmp_path / str(at)).mkdir()
        tree = a_small_tree(tmp_path / str(at))
        root = tree.nodes["root"]
        body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 12}}
        reservation_id = root.client().post("/zones/boot", body).json["reservation_id"]
        pause = Pause(tree, at)

        background.work_on_boots(root.zone)

        happened = pause.happened
        pause.end()
        assert not happened or all_rows(tree) == pause.rows, f"paused before write {at}"
        heal(tree)
        assert differences(tree) == [], f"paused before write {at}"
        shown = root.client().get(f"/reservations/{reservation_id}").json["reservation"]
        assert shown["counts"] == {"BUILD": 12}, f"paused before write {at}"
    assert at > 6
