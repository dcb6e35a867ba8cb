"""Rows of one host as the store reads them: the input of the host table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zonesched.model.aggregate import Aggregate
from zonesched.model.capacity import Inventory


@dataclass(frozen=True)
class HostFacts:
    """Facts of a host that only an agent or an operator changes. `id` is a uuid, unique for ever.

    `forced_down`: an operator has declared the host dead, whatever its agent reports.
    """

    id: str
    name: str
    address: str = ""
    availability_zone: str = ""
    service_id: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    enabled: bool = True
    forced_down: bool = False
    aggregates: tuple[Aggregate, ...] = ()


def flavor_key(caller_id: str, flavor_id: str) -> str:
    """Make the key of an instance's flavor: its sender (a parent's user, or this zone) and id.

    Zones share no flavors, so a parent's flavor of the same id is another one.
    """
    return f"{caller_id}:{flavor_id}"


@dataclass(frozen=True)
class HostUse:
    """Uses of a host that claims and builds change: claimed amounts by class, and counts.

    The counts are living instances by the key of their owner, the key of their flavor (`flavor_key`), the key
    of their image's properties (`image_key`), and the key of their server group. `num_building`: living
    instances that are to be built there. `failed_builds`: builds that failed since the last successful one.
    """

    used: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, int] = field(default_factory=dict)
    flavors: Mapping[str, int] = field(default_factory=dict)
    images: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    num_building: int = 0
    failed_builds: int = 0


@dataclass(frozen=True)
class HostRow:
    """All rows of one host. `metrics` are finite numbers that the agent reports."""

    facts: HostFacts
    inventories: Mapping[str, Inventory]
    use: HostUse = HostUse()
    metrics: Mapping[str, float] = field(default_factory=dict)


def digest(host: HostRow) -> int:
    """Return 64 bits that, but for chance, are the same only for equal facts, inventories and metrics.

    They mean nothing to another process.
    """
    facts = host.facts
    return hash(
        (
            facts.id,
            facts.name,
            facts.address,
            facts.availability_zone,
            facts.service_id,
            repr(facts.capabilities),
            facts.traits,
            facts.enabled,
            facts.forced_down,
            tuple(aggregate.key for aggregate in facts.aggregates),
            frozenset(host.inventories.items()),
            # Not their own hashes: Python's of -1.0 and -2.0 are the same.
            frozenset((name, repr(value)) for name, value in host.metrics.items()),
        )
    )


@dataclass(frozen=True)
class SharedFacts:
    """The facts that many hosts have in common; a filter with `shared_facts_only` reads only these."""

    availability_zone: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: tuple[Aggregate, ...] = ()
