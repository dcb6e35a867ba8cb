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

    `forced_down`: an operator says that it is dead, whatever its agent says.
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


@dataclass(frozen=True)
class HostUse:
    """Uses of a host that claims and builds change: claimed amounts by class, and counts.

    Living instances by the key of their owner, the id of their flavor, the key of their image's properties
    (`image_key`), and the key of their server group. `num_building` of them are not built yet;
    `failed_builds` have failed since the last that did not.
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
    """A host as a whole. `metrics` are finite numbers the agent reports."""

    facts: HostFacts
    inventories: Mapping[str, Inventory]
    use: HostUse = HostUse()
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SharedFacts:
    """The facts that many hosts have in common: what a filter with `shared_facts_only` reads."""

    availability_zone: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: tuple[Aggregate, ...] = ()
