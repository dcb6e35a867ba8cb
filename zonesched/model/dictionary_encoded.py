"""Dictionary-encoded column: each distinct value is stored once, and rows hold its number.

A question about the values is answered once per distinct value, not once per host; the answers to a question
that many requests ask are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from zonesched.model.arrays import Bools, Floats, Ints, RowSelection
from zonesched.model.work_deadline import NO_DEADLINE, WorkDeadline

V = TypeVar("V")

_MAX_CACHED = 64
_MOST_ANSWERS = 16
_NOT_ASKED, _NO, _YES = 0, 1, 2


class Lasting:
    """A question whose answers are cached: two equal questions have the same answer for every value.

    Subclasses are frozen dataclasses. A column caches the answers to the most recent questions.
    """


class EncodedColumn(Generic[V]):
    """Values by row; value number 0 is the default, which free rows hold."""

    def __init__(self, default: V, default_key: Hashable, room: int) -> None:
        self._values: list[V] = [default]
        self._keys: list[Hashable] = [default_key]
        self._users = [1]
        self._number_of: dict[Hashable, int] = {default_key: 0}
        self._unused: list[int] = []
        self._numbers: npt.NDArray[np.int32] = np.zeros(room, dtype=np.int32)
        self._cached: dict[Lasting, bytearray] = {}
        self._answers: dict[tuple[Lasting, int], Bools | None] = {}

    def grow(self, room: int) -> None:
        self._numbers = np.concatenate([self._numbers, np.zeros(room - len(self._numbers), dtype=np.int32)])

    def __getitem__(self, row: int) -> V:
        return self._values[int(self._numbers[row])]

    def set(self, row: int, key: Hashable, value: V) -> None:
        """Set the value of `row`; among values with the same key the first is stored."""
        number = self._number_of.get(key)
        if number is None:
            number = self._add(key, value)
        before = int(self._numbers[row])
        if number != before:
            self._answers.clear()
        self._users[number] += 1
        self._release(before)
        self._numbers[row] = number

    def flags(
        self,
        rows: RowSelection,
        question: Callable[[V], bool],
        everyone: Bools | None = None,
        deadline: WorkDeadline = NO_DEADLINE,
    ) -> Bools:
        """Return the answer for each of `rows`; ask at most once per distinct value of the column.

        A slice must start at row 0. Return `everyone` if all answers are true. Never write to the result.
        Raise OutOfTime; the answers until then stay cached.
        """
        key = _key(question, rows)
        if key is None:
            found = self._ask(rows, question, deadline)
        elif key in self._answers:
            found = self._answers[key]
        else:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            found = self._answers[key] = self._ask(rows, question, deadline)
        if found is not None:
            return found
        return np.ones(len(self._numbers[rows]), dtype=np.bool_) if everyone is None else everyone

    def _ask(self, rows: RowSelection, question: Callable[[V], bool], deadline: WorkDeadline) -> Bools | None:
        """Return the answer for each of the rows; None if all are true."""
        numbers = self._numbers[rows]
        asked = self._worth_asking(numbers)
        known = self._answers_to(question)
        unknown = [number for number in asked if known[number] == _NOT_ASKED]
        for number in deadline.watch(unknown):
            known[number] = _YES if question(self._values[number]) else _NO
        answers: Bools = np.frombuffer(known, dtype=np.uint8) == _YES
        return None if answers[asked].all() else answers[numbers]

    def _answers_to(self, question: object) -> bytearray:
        """Return the cached answers by value number, to be completed by the caller."""
        if not isinstance(question, Lasting):
            return bytearray(len(self._values))
        # The dictionary is in order of last use.
        known = self._cached.pop(question, None) or bytearray()
        known += bytes(len(self._values) - len(known))
        self._cached[question] = known
        if len(self._cached) > _MAX_CACHED:
            del self._cached[next(iter(self._cached))]
        return known

    def numbers(
        self, rows: RowSelection, question: Callable[[V], float], deadline: WorkDeadline = NO_DEADLINE
    ) -> Floats:
        """Variant of `flags` for a question whose answer is a number."""
        numbers = self._numbers[rows]
        answers = np.zeros(len(self._values))
        for number in deadline.watch(self._worth_asking(numbers)):
            answers[number] = question(self._values[number])
        return answers[numbers]

    def _worth_asking(self, numbers: npt.NDArray[np.int32]) -> list[int]:
        # Asking about each of a few values costs less than finding out which values many rows have.
        if len(self._values) <= 64:
            return list(range(len(self._values)))
        return [int(number) for number in self._present(numbers)]

    def groups(self, rows: RowSelection) -> tuple[Ints, Ints]:
        """Return (positions, group): rows of a group share a value, and `positions[group]` is one of them."""
        numbers = self._numbers[rows]
        present = self._present(numbers)
        group_of = np.zeros(len(self._values), dtype=np.int64)
        group_of[present] = np.arange(len(present))
        position_of = np.zeros(len(self._values), dtype=np.int64)
        position_of[numbers] = np.arange(len(numbers))
        return position_of[present], group_of[numbers]

    def distinct(self) -> list[V]:
        """Return every value that any row has, and the default."""
        return [value for value, users in zip(self._values, self._users, strict=True) if users]

    def _present(self, numbers: npt.NDArray[np.int32]) -> Ints:
        present = np.zeros(len(self._values), dtype=np.bool_)
        present[numbers] = True
        return np.flatnonzero(present)

    def _add(self, key: Hashable, value: V) -> int:
        if self._unused:
            number = self._unused.pop()
            self._values[number], self._keys[number] = value, key
            for known in self._cached.values():
                if number < len(known):
                    known[number] = _NOT_ASKED
        else:
            number = len(self._values)
            self._values.append(value)
            self._keys.append(key)
            self._users.append(0)
        self._number_of[key] = number
        return number

    def _release(self, number: int) -> None:
        if number == 0:
            return
        self._users[number] -= 1
        if self._users[number] == 0:
            del self._number_of[self._keys[number]]
            self._values[number] = self._values[0]
            self._keys[number] = self._keys[0]
            self._unused.append(number)


def _key(question: object, rows: RowSelection) -> tuple[Lasting, int] | None:
    """Return the key under which an answer is cached, None for an answer that is not cached."""
    return (question, rows.stop) if isinstance(question, Lasting) and isinstance(rows, slice) else None
