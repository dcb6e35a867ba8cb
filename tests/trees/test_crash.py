"""P2: whatever process dies between any two steps, the boot ends right once it is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import a_small_tree, settle_until_killed
from tests.builders.crashes import Seams, heal, inconsistencies
from tests.builders.tree import Tree


def boot_all(tree: Tree, server: dict[str, object]) -> str:
    answer = tree.nodes["root"].client().post("/zones/boot", {"server": server})
    assert answer.status == 202, answer.body
    reservation_id: str = answer.json["reservation_id"]
    return reservation_id


ALL, NONE = {"BUILD": 12}, {"ERROR": 12}
ENDS = {"root": [ALL], "region": [ALL, NONE], "leaf-a": [ALL, NONE], "leaf-b": [ALL]}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["root", "region", "leaf-a", "leaf-b"])
def test_a_zone_killed_at_any_step_of_a_boot(tmp_path: Path, victim: str) -> None:
    before = a_small_tree(tmp_path)
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        tree = before.copy_to(tmp_path / str(kill_at))
        tree.poll()
        reservation = boot_all(tree, {"name": "vm", "flavorRef": "small", "num_instances": 12})
        seams = Seams(tree, victim, kill_at)

        killed = settle_until_killed(tree, seams)

        heal(tree)
        shown = tree.nodes["root"].client().get(f"/reservations/{reservation}").json["reservation"]
        assert inconsistencies(tree) == [], f"killed at {kill_at}"
        # Without the region the others have room for 10: all or nothing is then nothing.
        assert shown["counts"] in ENDS[victim], f"killed at {kill_at}: {shown}"
    assert kill_at > 3
