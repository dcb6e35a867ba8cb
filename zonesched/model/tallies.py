"""Counts of a host's instances by something they share (owner, flavor, group), for all hosts of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from zonesched.model.arrays import Floats


class Tallies:
    """Counts by row and key, and rows by key; what counts 0 is not kept."""

    def __init__(self) -> None:
        self._of_row: dict[int, Mapping[str, int]] = {}
        self._rows_of: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def set(self, row: int, counts: Mapping[str, int]) -> None:
        """Make `counts` all that a row has."""
        for key in self._of_row.pop(row, {}):
            del self._rows_of[key][row]
            if not self._rows_of[key]:
                del self._rows_of[key]
        living = {key: count for key, count in counts.items() if count > 0}
        for key, count in living.items():
            self._rows_of[key][row] = count
        if living:
            self._of_row[row] = living

    def count(self, row: int, key: str) -> int:
        return self._of_row.get(row, {}).get(key, 0)

    def of_row(self, row: int) -> Mapping[str, int]:
        """All counts of one row, by key."""
        return self._of_row.get(row, {})

    def column(self, key: str, size: int) -> Floats:
        """The counts of one key, by row."""
        counts = np.zeros(size)
        found = self._rows_of.get(key)
        if found:
            counts[list(found)] = list(found.values())
        return counts

    def weighed(self, scores: Mapping[str, float], size: int) -> Floats:
        """By row, the sum of count times score over the keys, added in their order."""
        total = np.zeros(size)
        for key in sorted(scores):
            found = self._rows_of.get(key)
            if found and scores[key]:
                counts = np.fromiter(found.values(), dtype=np.float64, count=len(found))
                total[np.fromiter(found, dtype=np.int64, count=len(found))] += counts * scores[key]
        return total

    def keys(self) -> Iterator[str]:
        """Every key that some row has, in no particular order."""
        return iter(self._rows_of)
