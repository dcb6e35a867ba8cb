"""Writing transactions against each other, statement by statement; docs/simulation.md says what is played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from tests.builders.migrated import a_database
from tests.builders.postgresql import databases
from tests.interleaving.kinds import DANGEROUS, KINDS
from tests.interleaving.order import TO_THE_END, After, Given, Order
from tests.interleaving.removal import rewritten, without_lock
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
        played = schedules(scene, "+".join(pair)).play(3, seed=1)
        wrong += [f"{one.repeat}: {one.wrong}" for one in played if one.wrong]

    assert wrong == []


def test_three_at_a_time_leave_sound_rows(scene: Scene) -> None:
    played = list(schedules(scene, "hold+cancel+reap").play(8, seed=1))

    assert [one.wrong for one in played] == [()] * len(played)


@pytest.mark.parametrize(
    ("pair", "order"),
    [
        # A worker that claims for a move is interrupted by one whose clock says that its lease is over.
        ("move+move_overdue", After("a", "^INSERT INTO placements")),
        ("host_removed+host_removed", Given([("a", 3), ("b", 3)])),
        ("child_removed+child_removed", Given([("a", 1), ("b", 33)])),
    ],
    ids=["move", "host", "child"],
)
def test_who_comes_second_finds_what_the_first_has_done(scene: Scene, pair: str, order: Order) -> None:
    assert schedules(scene, pair).judged(order).wrong == ()


CAPACITY = r"AND inventories\.used \+ [^<]*<= inventories\.capacity"


@pytest.mark.parametrize(
    ("removal", "pair", "order", "found"),
    [
        (rewritten(CAPACITY), "hold+quota", Given([("a", TO_THE_END)]), "P3"),
        (rewritten("^INSERT INTO placements", "INSERT INTO nowhere"), "hold+reap", Given([]), "error a"),
        (
            without_lock("group", "group_policy.refused"),
            "group_apart+group_apart",
            Given([("a", 17), ("b", 22)]),
            "audit: group_host_overfull",
        ),
        (
            without_lock("instances", "confirm._decide_confirm"),
            "confirm+reap",
            Given([("a", 3), ("b", 24)]),
            "outcome of no order",
        ),
    ],
    ids=["capacity", "error", "audit", "outcome"],
)
def test_a_removed_lock_or_condition_is_seen(
    scene: Scene, removal: AbstractContextManager[None], pair: str, order: Order, found: str
) -> None:
    with removal:
        played = schedules(scene, pair).judged(order)

    assert any(wrong.startswith(found) for wrong in played.wrong), played.wrong


def test_a_violation_is_repeated_by_its_order(scene: Scene) -> None:
    with without_lock("instances", "confirm._decide_confirm"):
        first = schedules(scene, "confirm+reap").judged(Given([("a", 3), ("b", 24)]))
        again = schedules(scene, "confirm+reap").judged(Given.from_text(first.order))

    assert first.wrong
    assert (again.order, again.wrong) == (first.order, first.wrong)
