"""Values that many rows share: how often they are asked about, and that kept answers are right."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.dictionary_encoded import EncodedColumn, Lasting

ROWS = 6
ALL = slice(0, ROWS)


@dataclass(frozen=True)
class AtLeast(Lasting):
    """Notes what it is asked about."""

    limit: int
    asked: list[int] = field(default_factory=list, compare=False)

    def __call__(self, value: int) -> bool:
        self.asked.append(value)
        return value >= self.limit


def a_column(*values: int) -> EncodedColumn[int]:
    column = EncodedColumn(0, 0, ROWS)
    for row, value in enumerate(values):
        column.set(row, value, value)
    return column


def test_a_lasting_question_is_asked_once_about_each_value() -> None:
    column = a_column(5, 7, 5, 7, 5, 7)
    first, again = AtLeast(6), AtLeast(6)
    assert column.flags(ALL, first).tolist() == [False, True] * 3
    assert column.flags(ALL, again).tolist() == [False, True] * 3
    assert sorted(first.asked) == [0, 5, 7]
    assert again.asked == []


def test_another_lasting_question_has_answers_of_its_own() -> None:
    column = a_column(5, 7)
    column.flags(ALL, AtLeast(6))
    assert column.flags(ALL, AtLeast(5)).tolist() == [True, True, False, False, False, False]


def test_any_other_question_is_asked_each_time() -> None:
    column = a_column(5)
    asked: list[int] = []

    def question(value: int) -> bool:
        asked.append(value)
        return False

    column.flags(ALL, question)
    column.flags(ALL, question)
    assert sorted(asked) == [0, 0, 5, 5]


def test_a_value_that_takes_the_place_of_another_one_is_asked_about() -> None:
    column = a_column(5)
    column.flags(ALL, AtLeast(6))
    column.set(0, 0, 0)
    column.set(0, 9, 9)
    again = AtLeast(6)
    assert column.flags(ALL, again).tolist() == [True, False, False, False, False, False]
    assert again.asked == [9]


def test_of_many_questions_the_last_are_kept() -> None:
    column = a_column(5)
    column.flags(ALL, AtLeast(0))
    for limit in range(1, 200):
        column.flags(ALL, AtLeast(limit))
    latest, first = AtLeast(199), AtLeast(0)
    column.flags(ALL, latest)
    column.flags(ALL, first)
    assert latest.asked == []
    assert sorted(first.asked) == [0, 5]


changes = st.tuples(st.integers(0, ROWS - 1), st.integers(0, 5))


@given(st.lists(st.one_of(changes, st.integers(0, 6)), max_size=40))
def test_kept_answers_are_those_of_the_values_that_rows_hold(steps: list[tuple[int, int] | int]) -> None:
    column, held = a_column(), [0] * ROWS
    for step in steps:
        if isinstance(step, tuple):
            row, held[step[0]] = step[0], step[1]
            column.set(row, step[1], step[1])
        else:
            for rows in (ALL, np.arange(ROWS)):
                answers = column.flags(rows, AtLeast(step))
                assert answers.tolist() == [value >= step for value in held]
