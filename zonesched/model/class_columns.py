"""The columns of one resource class: one float64 per host, exact for whole numbers below 2**53."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zonesched.model.arrays import Floats, Ints
from zonesched.model.capacity import Inventory


class ClassColumns:
    """Columns by row. A host without this class has capacity 0 and admits no amount (max_unit 0).

    `usable` is total - reserved, `free` is usable - used; `left` is capacity - used, the amount that claims
    may still take. `any_amount`: min_unit and step_size have always been 1 on every host, so that only
    max_unit limits amounts from 1. `least_max_unit`: lower bound of max_unit over all hosts of the table, 0
    if a host lacks the class.
    """

    def __init__(self, room: int) -> None:
        self.total: Floats = np.zeros(room)
        self.reserved: Floats = np.zeros(room)
        self.allocation_ratio: Floats = np.ones(room)
        self.capacity: Floats = np.zeros(room)
        self.used: Floats = np.zeros(room)
        self.min_unit: Floats = np.ones(room)
        self.max_unit: Floats = np.zeros(room)
        self.step_size: Floats = np.ones(room)
        self.any_amount = True
        self.least_max_unit = 0.0
        self.usable: Floats = np.zeros(room)
        self.left: Floats = np.zeros(room)
        self.free: Floats = np.zeros(room)

    def grow(self, room: int) -> None:
        larger = ClassColumns(room)
        for name, column in vars(larger).items():
            if isinstance(column, np.ndarray):
                smaller = getattr(self, name)
                column[: len(smaller)] = smaller
                setattr(self, name, column)

    def clear(self, rows: Ints) -> None:
        """Make `rows` hosts without this class."""
        for column in (
            self.total,
            self.reserved,
            self.capacity,
            self.used,
            self.max_unit,
            self.usable,
            self.left,
            self.free,
        ):
            column[rows] = 0.0
        for column in (self.allocation_ratio, self.min_unit, self.step_size):
            column[rows] = 1.0

    def set_inventories(self, row_numbers: Sequence[int], inventories: Sequence[Inventory]) -> None:
        """Set the inventories of the rows, one each; `used` stays unchanged."""
        rows = np.array(row_numbers, dtype=np.int64)
        self.total[rows] = [inventory.total for inventory in inventories]
        self.reserved[rows] = [inventory.reserved for inventory in inventories]
        self.allocation_ratio[rows] = [inventory.allocation_ratio for inventory in inventories]
        self.capacity[rows] = [inventory.capacity for inventory in inventories]
        self.min_unit[rows] = [inventory.min_unit for inventory in inventories]
        self.max_unit[rows] = [inventory.max_unit for inventory in inventories]
        self.step_size[rows] = [inventory.step_size for inventory in inventories]
        uneven = (self.min_unit[rows] != 1.0) | (self.step_size[rows] != 1.0)
        self.any_amount &= not uneven.any()
        self.least_max_unit = min(self.least_max_unit, float(self.max_unit[rows].min()))
        self.usable[rows] = self.total[rows] - self.reserved[rows]
        self._derive(rows, self.used[rows])

    def set_used(self, rows: Ints, amounts: Ints | Floats) -> None:
        """Set the claimed amount of each of `rows`."""
        self.used[rows] = amounts
        self._derive(rows, amounts)

    def add_used(self, row: int, amount: int) -> None:
        """Change the claimed amount of one row, which may be by a negative amount."""
        used = float(self.used[row]) + amount
        self.used[row] = used
        self.left[row] = float(self.capacity[row]) - used
        self.free[row] = float(self.usable[row]) - used

    def _derive(self, rows: Ints, used: Ints | Floats) -> None:
        self.left[rows] = self.capacity[rows] - used
        self.free[rows] = self.usable[rows] - used
