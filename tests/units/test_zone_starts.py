"""Two zones that answer as one are told apart by their starts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from zonesched.model.zone_starts import MAX_LEFT, ZoneStarts


def cloned(starts: Sequence[str]) -> list[bool]:
    """Whether each answer of a row of answers counts as that of a clone."""
    known, found = ZoneStarts(), []
    for start in starts:
        known = known.seeing(start)
        found.append(known.is_cloned(start))
    return found


@pytest.mark.parametrize("starts", ["aaa", "abc", "aabbc", ["a", "", "a", "", "b"], ["", "", ""]], ids=str)
def test_one_zone_starts_again_as_often_as_it_likes(starts: Sequence[str]) -> None:
    assert not any(cloned(starts))


@pytest.mark.parametrize(
    ("starts", "expected"),
    [("aba", [0, 0, 1]), ("ababb", [0, 0, 1, 1, 1]), ("abac", [0, 0, 1, 0]), ("abaca", [0, 0, 1, 0, 1])],
)
def test_a_start_that_comes_back_is_of_another_zone_until_one_is_restarted(
    starts: str, expected: list[int]
) -> None:
    assert cloned(starts) == list(map(bool, expected))


def test_a_zone_that_names_another_start_each_time_takes_no_room() -> None:
    known = ZoneStarts()
    for number in range(1000):
        known = known.seeing(str(number))

    assert len(known.left) == MAX_LEFT
