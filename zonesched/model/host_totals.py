"""Sums over all hosts of a zone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ClassTotals:
    """Inventories of one resource class, summed up."""

    total: int
    capacity: int
    used: int


NO_TOTALS = ClassTotals(0, 0, 0)


@dataclass(frozen=True)
class HostTotals:
    """Number of hosts, of the instances that hold resources on them, and the sums by resource class."""

    hosts: int
    instances: int
    by_class: Mapping[str, ClassTotals]
