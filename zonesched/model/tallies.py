"""Counts of a host's instances by something they share (owner, flavor, group), for all hosts of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from zonesched.model.arrays import Floats

_NOTHING: Mapping[str, int] = {}


class Tallies:
    """Counts by row and key, and rows by key; a count of 0 is as none.

    Hosts change far more often than somebody asks which of them have a key, so rows are sorted by key when
    that is asked; until then there is nothing to keep but what each row has.
    """

    def __init__(self, room: int) -> None:
        self._counts: list[Mapping[str, int]] = [_NOTHING] * room
        self._is_sorted = False
        self._sorted: dict[int, Mapping[str, int]] = {}
        self._unsorted: set[int] = set()
        self._rows_of: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def grow(self, room: int) -> None:
        self._counts += [_NOTHING] * (room - len(self._counts))

    def set(self, rows: Sequence[int], counts: Iterable[Mapping[str, int]]) -> None:
        """All that each of `rows` has at present, by key; kept as it is given."""
        for row, of_row in zip(rows, counts, strict=True):
            self._counts[row] = of_row or _NOTHING
        if self._is_sorted:
            self._unsorted.update(rows)

    def count(self, row: int, key: str) -> int:
        return self._counts[row].get(key, 0)

    def of_row(self, row: int) -> Mapping[str, int]:
        """All counts of one row, by key."""
        return {key: count for key, count in self._counts[row].items() if count > 0}

    def column(self, key: str, size: int) -> Floats:
        """The counts of one key, by row."""
        return self.weighed({key: 1.0}, size)

    def weighed(self, scores: Mapping[str, float], size: int) -> Floats:
        """By row, the sum of count times score over the keys, added in their order."""
        self._sort()
        total = np.zeros(size)
        for key in sorted(scores):
            found = self._rows_of.get(key)
            if found and scores[key]:
                counts = np.fromiter(found.values(), dtype=np.float64, count=len(found))
                total[np.fromiter(found, dtype=np.int64, count=len(found))] += counts * scores[key]
        return total

    def has(self, key: str) -> bool:
        """Whether any row has it."""
        self._sort()
        return key in self._rows_of

    def keys(self) -> Iterator[str]:
        """Every key that some row has, in no particular order."""
        self._sort()
        return iter(self._rows_of)

    def _sort(self) -> None:
        if not self._is_sorted:
            self._unsorted.update(row for row, counts in enumerate(self._counts) if counts)
            self._is_sorted = True
        for row in self._unsorted:
            self._take_out(row)
            counts = self._counts[row]
            for key, count in counts.items():
                if count > 0:
                    self._rows_of[key][row] = count
            if counts:
                self._sorted[row] = counts
        self._unsorted.clear()

    def _take_out(self, row: int) -> None:
        for key, count in self._sorted.pop(row, _NOTHING).items():
            if count > 0:
                del self._rows_of[key][row]
                if not self._rows_of[key]:
                    del self._rows_of[key]
