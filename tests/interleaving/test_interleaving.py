"""Writing transactions against each other, statement by statement; docs/simulation.md says what is played."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from tests.builders.migrated import a_database
from tests.builders.postgresql import databases
from tests.interleaving.kinds import DANGEROUS, KINDS
from tests.interleaving.order import After, Given, Order
from tests.interleaving.scene import Scene
from tests.interleaving.schedule import Schedules

pytestmark = [pytest.mark.postgresql, pytest.mark.slow]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    path = tmp_path / "zone.sqlite"
    found = Scene.open(tmp_path, a_database(path), databases().connection(path))
    yield found
    found.close()


def schedules(scene: Scene, pair: str) -> Schedules:
    return Schedules(scene, [KINDS[name] for name in pair.split("+")])


def test_dangerous_kinds_leave_sound_rows_in_any_order(scene: Scene) -> None:
    wrong: list[str] = []
    for pair in combinations_with_replacement(DANGEROUS, 2):
        played = schedules(scene, "+".join(pair)).play(6, seed=1)
        wrong += [f"{one.repeat}: {one.wrong}" for one in played if one.wrong]

    assert wrong == []


def test_three_at_a_time_leave_sound_rows(scene: Scene) -> None:
    played = list(schedules(scene, "hold+cancel+reap").play(8, seed=1))

    assert [one.wrong for one in played] == [()] * len(played)


MOVES = "move+move_overdue", After("a", "^INSERT INTO placements")
"""A worker that claims for a move is interrupted by one whose clock says that its lease is over."""


@pytest.mark.parametrize(
    ("pair", "order"),
    [
        MOVES,
        ("host_removed+host_removed", Given([("a", 3), ("b", 3)])),
        ("child_removed+child_removed", Given([("a", 1), ("b", 33)])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mended(scene: Scene, pair: str, order: Order) -> None:
    assert schedules(scene, pair).judged(order).wrong == ()
