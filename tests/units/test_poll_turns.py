"""Turns of many children: pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonesched.zones.poll_turns import AT_ONCE, share, turns_of


@pytest.mark.parametrize(
    ("count", "turns"), [(0, 1), (1, 1), (AT_ONCE, 1), (AT_ONCE + 1, 2), (100, 13), (7 * AT_ONCE, 7)]
)
def test_as_many_turns_as_keep_each_of_them_small(count: int, turns: int) -> None:
    assert turns_of(count) == turns


@pytest.mark.parametrize(("most", "turns"), [(0.0, 1), (0.9, 1), (1.0, 1), (3.9, 3), (15.0, 13)])
def test_no_more_turns_than_there_is_time_for(most: float, turns: int) -> None:
    assert turns_of(100, most) == turns


@given(st.sets(st.integers(), max_size=200).map(sorted), st.floats(0.0, 30.0))
def test_each_child_is_in_one_of_the_turns(children: list[int], most: float) -> None:
    turns = turns_of(len(children), most)

    dealt = [child for turn in range(turns) for child in share(children, turn, turns)]

    assert sorted(dealt) == children
    assert turns == 1 or max(len(share(children, turn, turns)) for turn in range(turns)) <= max(
        AT_ONCE, len(children) / int(max(1, most)) + 1
    )
