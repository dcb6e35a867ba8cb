"""Names by row, and the row of each name.

>>> names = NameColumn()
>>> names.append()
>>> names.set(0, "host-1")
>>> names[0], names.rows(["host-1", "host-2"]).tolist()
('host-1', [0])
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from zonesched.model.arrays import Ints


class NameColumn:
    """One name a row, "" for none; no two rows have the same for long."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._row_of: dict[str, int] = {}

    def append(self) -> None:
        """Add a row without a name."""
        self._names.append("")

    def __getitem__(self, row: int) -> str:
        return self._names[row]

    def set(self, row: int, name: str) -> None:
        """Set the name of a row; the last row that takes a name has it."""
        # Another row may have taken the old name already.
        if self._row_of.get(self._names[row]) == row:
            del self._row_of[self._names[row]]
        self._names[row] = name
        if name:
            self._row_of[name] = row

    def rows(self, names: Iterable[str]) -> Ints:
        """Return the rows of the known ones among these names, in no particular order."""
        known = (self._row_of[name] for name in names if name in self._row_of)
        return np.fromiter(known, dtype=np.int64)
