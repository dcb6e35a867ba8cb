"""Aggregates: named groups of hosts, with metadata that filters, weighers and capacities read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

AVAILABILITY_ZONE = "availability_zone"
"""The metadata key whose value is the availability zone of the aggregate's hosts."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a host. `id` is unique in the zone; a host may be in several aggregates."""

    id: str
    name: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """Key that is equal for equal aggregates."""
        return (self.id, self.name, tuple(sorted(self.metadata.items())))


def zone_of(aggregates: Iterable[Aggregate], reported: str) -> str:
    """Return a host's availability zone: the first that its aggregates set, else the reported one."""
    named = (aggregate.metadata.get(AVAILABILITY_ZONE) for aggregate in aggregates)
    return next((zone for zone in named if zone), reported)
