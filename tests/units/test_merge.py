"""Sequences of several zones, merged by their heads."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.build_plan import MAX_WEIGHT, ChildBlob, Entry
from zonesched.scheduler.merge import adjust, merge_heads

SEQUENCES = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12), max_size=6)


def entries(sequences: list[list[tuple[int, int]]]) -> list[list[Entry]]:
    return [
        [Entry(*head, ChildBlob(str(number), str(index))) for index, head in enumerate(sequence)]
        for number, sequence in enumerate(sequences)
    ]


@given(SEQUENCES, st.integers(0, 40))
def test_each_pick_is_the_best_head_at_that_moment(heads: list[list[tuple[int, int]]], count: int) -> None:
    sequences = entries(heads)
    left = [list(sequence) for sequence in sequences]
    expected: list[Any] = []
    while len(expected) < count and any(left):
        first = [(s[0].weight, s[0].tie, number) for number, s in enumerate(left) if s]
        expected.append(left[min(first)[2]].pop(0))
    assert merge_heads(sequences, count) == (expected, left)


def test_a_sequence_that_gets_better_is_not_sorted() -> None:
    picked, rests = merge_heads(entries([[(5, 0), (1, 0), (1, 0)], [(4, 0), (6, 0)]]), 3)
    assert [entry.weight for entry in picked] == [4, 5, 1]
    assert [[entry.weight for entry in rest] for rest in rests] == [[1], [6]]


@given(SEQUENCES, SEQUENCES, st.integers(0, 40))
def test_what_is_merged_of_pages_is_the_beginning_of_what_is_merged_of_all(
    heads: list[list[tuple[int, int]]], unread: list[list[tuple[int, int]]], count: int
) -> None:
    pages = entries(heads)
    goes_on = {number for number, more in zip(range(len(heads)), unread, strict=False) if more}
    whole = entries([[*page, *(unread[n] if n in goes_on else [])] for n, page in enumerate(heads)])

    picked, rests = merge_heads(pages, count, goes_on)

    at_once, _ = merge_heads(whole, count)
    assert picked == at_once[: len(picked)]
    used_up = any(not rests[number] for number in goes_on)
    assert len(picked) == len(at_once) or used_up


@given(SEQUENCES, st.integers(0, 40))
def test_merging_level_by_level_is_merging_at_once(heads: list[list[tuple[int, int]]], count: int) -> None:
    sequences = entries(heads)
    below, _ = merge_heads(sequences[1:], count)
    stepwise, _ = merge_heads([*sequences[:1], below], count)
    at_once, _ = merge_heads(sequences, count)
    assert [(e.weight, e.tie) for e in stepwise] == [(e.weight, e.tie) for e in at_once]


def test_of_equal_weights_the_lowest_tie_key_comes_first() -> None:
    picked, _ = merge_heads(entries([[(5, 3), (5, 9)], [(5, 1), (5, 8)], [(4, 9), (5, 2)]]), 6)
    assert [(e.weight, e.tie) for e in picked] == [(4, 9), (5, 1), (5, 2), (5, 3), (5, 8), (5, 9)]


@given(st.integers(0, MAX_WEIGHT))
def test_by_default_a_childs_weight_stays_as_it_is(weight: int) -> None:
    assert adjust(weight, 0.0, 1.0) == weight


@pytest.mark.parametrize(
    ("weight", "offset", "scale", "adjusted"),
    [
        (10, 5.0, 2.0, 25),
        (10, -50.0, 1.0, 0),
        (MAX_WEIGHT, 1.0, 1.0, MAX_WEIGHT),
        (MAX_WEIGHT, 0.0, 1e308, MAX_WEIGHT),
        (3, 0.4, 1.0, 3),
        (3, 0.0, 0.5, 2),
    ],
)
def test_a_childs_weight_is_adjusted_within_the_limits(
    weight: int, offset: float, scale: float, adjusted: int
) -> None:
    assert adjust(weight, offset, scale) == adjusted


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 0.0), (0.0, -1.0), (math.nan, 1.0), (0.0, math.inf)])
def test_an_adjustment_that_loses_the_order_is_refused(offset: float, scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        adjust(1, offset, scale)
