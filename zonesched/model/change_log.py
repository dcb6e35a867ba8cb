"""Log of the rows of a host table whose uses have changed, for readers that keep values by row.

>>> log = ChangeLog()
>>> seen = log.mark
>>> log.note([3, 1, 3])
>>> log.rows_since(seen).tolist()
[1, 3]
>>> log.forget()
>>> log.rows_since(seen) is None
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Ints

MAX_ROWS = 4_096
"""Rows that are logged; a reader that has seen none of more than these starts anew."""


@dataclass(frozen=True)
class Mark:
    """A position in the log."""

    epoch: int
    rows: int


class ChangeLog:
    """Rows in the order in which they changed, since the last change that may concern every row."""

    def __init__(self) -> None:
        self._epoch = 0
        self._rows: list[int] = []

    @property
    def mark(self) -> Mark:
        """The end of the log as it is now."""
        return Mark(self._epoch, len(self._rows))

    def note(self, rows: Sequence[int]) -> None:
        """Log that the uses of these rows have changed."""
        if len(self._rows) + len(rows) > MAX_ROWS:
            self.forget()
        else:
            self._rows += rows

    def forget(self) -> None:
        """Log that anything may have changed."""
        self._epoch += 1
        self._rows.clear()

    def rows_since(self, mark: Mark) -> Ints | None:
        """Return the rows that have changed since, in order, each once; None if any may have changed."""
        if mark.epoch != self._epoch:
            return None
        return np.array(sorted(set(self._rows[mark.rows :])), dtype=np.int64)
