"""Capacity of a host for a resource class; only this module computes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


def capacity(total: int, reserved: int, allocation_ratio: float) -> int:
    """Return the whole units that claims may take: floor((total - reserved) * ratio + 1e-9), at least 0.

    The small addend keeps a product such as 10 * 1.1 = 10.999... from losing a unit to binary fractions.
    """
    return max(0, math.floor((total - reserved) * allocation_ratio + 1e-9))


@dataclass(frozen=True)
class Inventory:
    """One resource class of one host. A requested amount must be in min_unit..max_unit, in whole steps."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1

    @property
    def capacity(self) -> int:
        return capacity(self.total, self.reserved, self.allocation_ratio)


@dataclass(frozen=True)
class InventorySetting:
    """An operator's settings for one resource class of one host; None keeps the agent's report."""

    reserved: int | None = None
    allocation_ratio: float | None = None


NOTHING_SET = InventorySetting()


def effective(reported: Inventory, setting: InventorySetting, aggregate_ratio: float | None) -> Inventory:
    """Return the effective inventory of a host.

    The ratio is the aggregates', else the operator's, else the reported one; the reserved amount is the
    operator's, else the reported one.
    """
    ratios = (aggregate_ratio, setting.allocation_ratio, reported.allocation_ratio)
    return replace(
        reported,
        reserved=reported.reserved if setting.reserved is None else setting.reserved,
        allocation_ratio=next(ratio for ratio in ratios if ratio is not None),
    )
