"""Metrics that hosts report, a column each by name; NaN for a host that does not report it.

>>> columns = MetricColumns(2)
>>> columns.set(1, {"cpu.percent": 0.5})
>>> columns.named("cpu.percent", 2).tolist()
[nan, 0.5]
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zonesched.model.arrays import Floats


class MetricColumns:
    """Columns with room for the same number of rows."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._columns: dict[str, Floats] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Every metric that some host reports or reported, sorted."""
        return tuple(sorted(self._columns))

    def named(self, name: str, size: int) -> Floats:
        """Return the first `size` values of a metric."""
        column = self._columns.get(name)
        return np.full(size, np.nan) if column is None else column[:size]

    def set(self, row: int, metrics: Mapping[str, float]) -> None:
        """Set all metrics of a host."""
        for name in metrics.keys() - self._columns.keys():
            self._columns[name] = np.full(self._room, np.nan)
        for name, column in self._columns.items():
            column[row] = metrics.get(name, np.nan)

    def grow(self, room: int) -> None:
        """Make room for more rows."""
        more = np.full(room - self._room, np.nan)
        self._columns = {name: np.concatenate([column, more]) for name, column in self._columns.items()}
        self._room = room
