"""Request spec: the demands of a request, equal in every zone that receives it.

The spec includes its flavor and image, since zones share no definitions.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from zonesched.model.extra_specs import TRAITS_ANY_OF, resource_class_in, trait_in
from zonesched.model.own_zone import AS_CONFIGURED, EnabledFilters

VCPU = "VCPU"
PCPU = "PCPU"
MEMORY_MB = "MEMORY_MB"
DISK_GB = "DISK_GB"
MB_PER_GB = 1024

RESOURCES_SCOPE = "resources:"
TRAIT_SCOPE = "trait:"
ZONE_SCOPE = "zone:"


class Policy(enum.Enum):
    """Placement rule among the instances of one request."""

    EACH = "each"
    AFFINITY = "affinity"


class GroupPolicy(enum.Enum):
    """Policy of a server group, as OpenStack Compute names it."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    SOFT_AFFINITY = "soft-affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"


@dataclass(frozen=True)
class ServerGroup:
    """The group that the request's instances join; only anti-affinity uses `max_server_per_host`."""

    id: str
    policy: GroupPolicy
    max_server_per_host: int = 1


@dataclass(frozen=True)
class NoGroup:
    """The request's instances join no server group."""


Group = ServerGroup | NoGroup


@dataclass(frozen=True)
class Flavor:
    """A size: amounts and extra specs (`resources:CLASS`, `trait:NAME`, `traits:any_of`, `zone:KEY`)."""

    id: str
    name: str
    vcpus: int
    ram_mb: int
    disk_gb: int
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    ephemeral_gb: int = 0
    swap_mb: int = 0

    @property
    def all_disk_gb(self) -> int:
        """Root disk, ephemeral disk and swap; the swap is rounded up to whole GB, as in OpenStack Nova."""
        return self.disk_gb + self.ephemeral_gb + -(-self.swap_mb // MB_PER_GB)

    @property
    def memory_mb(self) -> int:
        """`ram_mb` under OpenStack Nova's name, for plugins that were written for it."""
        return self.ram_mb

    @property
    def root_gb(self) -> int:
        """`disk_gb` under OpenStack Nova's name, for plugins that were written for it."""
        return self.disk_gb

    @property
    def swap(self) -> int:
        """`swap_mb` under OpenStack Nova's name, for plugins that were written for it."""
        return self.swap_mb

    @property
    def flavorid(self) -> str:
        """`id` under OpenStack Nova's name, for plugins that were written for it."""
        return self.id


MAX_TEXTS_BYTES = 8 * 1024
"""Limit of bytes for the properties of an image, and for the extra specs of a flavor.

They are stored, and told to agents, for each instance: one call of a few bytes may name thousands.
"""


def are_too_large(texts: Mapping[str, str]) -> bool:
    """Tell whether properties or extra specs take more than MAX_TEXTS_BYTES, in UTF-8."""
    return len("".join([*texts.keys(), *texts.values()]).encode("utf-8", "surrogatepass")) > MAX_TEXTS_BYTES


@dataclass(frozen=True)
class Image:
    """Image of a request: an id and the properties that filters read."""

    id: str
    name: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Text that is equal for images with the same properties."""
        return json.dumps(dict(self.properties), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class TraitQuery:
    """Traits that a host must have, must not have, and groups of traits of which it must have one each."""

    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    any_of: tuple[frozenset[str], ...] = ()

    def matches(self, traits: frozenset[str]) -> bool:
        return (
            self.required <= traits
            and not (self.forbidden & traits)
            and all(group & traits for group in self.any_of)
        )


@dataclass(frozen=True)
class WeigherScale:
    """One weigher's part of the scale: its raw value at score 0 and at score 1, and its multiplier."""

    weigher: str
    low: float
    high: float
    multiplier: float


@dataclass(frozen=True)
class ScoreWeighing:
    """Sum of scaled weighers; the zone that received the user's request chooses the scale once."""

    scales: tuple[WeigherScale, ...]


@dataclass(frozen=True)
class CostFunction:
    """A cost function by name, and the factor of its cost."""

    name: str
    weight: float


@dataclass(frozen=True)
class CostWeighing:
    """Weighing by a scheduler driver that computes integer weights itself, with its cost functions if any."""

    driver: str
    functions: tuple[CostFunction, ...] = ()


@dataclass(frozen=True)
class Unweighed:
    """No weighing yet: only in the zone that received the user's request, before its first select."""


Weighing = ScoreWeighing | CostWeighing | Unweighed


@dataclass(frozen=True)
class RequestSpec:
    """One request for `num_instances` equal instances.

    `time_budget_s` is the caller's remaining time when the spec arrives; zones exchange durations, never
    clock times. `path` has the uuids of the zones passed so far, starting with the zone that received the
    user's request. `enabled` and the hints of `own_zone.OWN_HINTS` apply to this zone only and are not on the
    wire. `traced_by`, the id of the user's call in logs, is passed in a header.
    """

    request_id: str
    project_id: str
    num_instances: int
    flavor: Flavor
    image: Image
    alternates: int = 0
    policy: Policy = Policy.EACH
    group: Group = NoGroup()
    availability_zone: str = ""
    hints: Mapping[str, Any] = field(default_factory=dict)
    filters: tuple[str, ...] = ()
    filter_query: str = ""
    enabled: EnabledFilters = AS_CONFIGURED
    weighing: Weighing = Unweighed()
    path: tuple[str, ...] = ()
    time_budget_s: float = 10.0
    traced_by: str = ""

    def varied(
        self,
        *,
        weighing: Weighing | None = None,
        alternates: int | None = None,
        time_budget_s: float | None = None,
    ) -> RequestSpec:
        """Return the spec with another value of a member that no filter reads.

        What was derived from the spec stays known; `dataclasses.replace` would forget it.
        """
        changed = {"weighing": weighing, "alternates": alternates, "time_budget_s": time_budget_s}
        other = object.__new__(RequestSpec)
        vars(other).update(vars(self))
        vars(other).update({name: value for name, value in changed.items() if value is not None})
        return other

    @cached_property
    def resources(self) -> Mapping[str, int]:
        """Amount of each resource class that one instance takes, in order of class name, without zeros.

        `resources:CLASS=n` overrides the flavor's own amount, and PCPU its VCPUs, as in OpenStack Nova; the
        amounts of several groups add up. Raise ValueError for an amount that is not a whole number from 0 up.
        """
        asked: dict[str, int] = {}
        for key, value in self.flavor.extra_specs.items():
            name = resource_class_in(key)
            if name is not None:
                asked[name] = asked.get(name, 0) + _amount(value)
        own = {
            VCPU: 0 if PCPU in asked else self.flavor.vcpus,
            MEMORY_MB: self.flavor.ram_mb,
            DISK_GB: self.flavor.all_disk_gb,
        }
        amounts = own | asked
        if any(amount < 0 for amount in own.values()):
            raise ValueError("a resource amount is negative")
        return {name: amounts[name] for name in sorted(amounts) if amounts[name] > 0}

    @cached_property
    def traits(self) -> TraitQuery:
        """Traits that the flavor's extra specs require or forbid, and those that the image requires.

        `trait:NAME=required|forbidden`; `traits:any_of=A,B;C,D` asks for (A or B) and (C or D). Of an image's
        properties only `trait:NAME=required` counts, as in OpenStack Nova.
        """
        specs = self.flavor.extra_specs
        named = [(trait_in(key), value) for key, value in specs.items()]
        groups = (group.split(",") for group in specs.get(TRAITS_ANY_OF, "").split(";") if group.strip())
        return TraitQuery(
            required=_named_as(named, "required") | required_traits(self.image.properties),
            forbidden=_named_as(named, "forbidden"),
            any_of=tuple(frozenset(name.strip() for name in group if name.strip()) for group in groups),
        )

    @cached_property
    def zone_capabilities(self) -> Mapping[str, str]:
        """Demands of the flavor on the zone itself: `zone:KEY=value` extra specs."""
        specs = self.flavor.extra_specs
        return {k.removeprefix(ZONE_SCOPE): v for k, v in specs.items() if k.startswith(ZONE_SCOPE)}

    @cached_property
    def readings(self) -> dict[object, Any]:
        """Cache of the values that filters parsed from this request, by key."""
        return {}

    @property
    def vcpus(self) -> int:
        """The flavor's VCPUs; this and the next four are OpenStack Nova's names, for its plugins."""
        return self.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        return self.flavor.ram_mb

    @property
    def root_gb(self) -> int:
        return self.flavor.disk_gb

    @property
    def ephemeral_gb(self) -> int:
        return self.flavor.ephemeral_gb

    @property
    def swap(self) -> int:
        return self.flavor.swap_mb

    @property
    def group_id(self) -> str:
        """The id of the server group that the instances join; "" without a group."""
        return self.group.id if isinstance(self.group, ServerGroup) else ""

    @property
    def same_host(self) -> tuple[str, ...]:
        """The uuids of instances with one of which the request must share a host; empty without the hint."""
        return tuple(self.hints.get("same_host", ()))

    @property
    def different_host(self) -> tuple[str, ...]:
        """The uuids of instances with none of which the request may share a host."""
        return tuple(self.hints.get("different_host", ()))

    def get_scheduler_hint(self, hint: str, default: Any = None) -> Any:
        """Return a hint as OpenStack Nova's request spec does: a list of one element becomes the element."""
        value = self.hints.get(hint, default)
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    @cached_property
    def image_key(self) -> str:
        """The image's properties as one text, equal for images with equal properties."""
        return self.image.key


def _amount(text: str) -> int:
    amount = int(text)
    if amount < 0:
        raise ValueError("a resource amount is negative")
    return amount


def _named_as(named: Iterable[tuple[str | None, str]], value: str) -> frozenset[str]:
    return frozenset(name for name, given in named if name is not None and given == value)


def required_traits(said: Mapping[str, str]) -> frozenset[str]:
    """Return the traits that properties or metadata require with trait:NAME=required."""
    keys = (key for key, value in said.items() if value == "required" and key.startswith(TRAIT_SCOPE))
    return frozenset(key.removeprefix(TRAIT_SCOPE) for key in keys)


def spec_for_child(spec: RequestSpec, zone_uuid: str, time_budget_s: float) -> RequestSpec:
    """Return the spec for a child: with this zone added to the path, and the child's time budget."""
    if not math.isfinite(time_budget_s):
        raise ValueError("the time budget is not finite")
    return replace(spec, path=(*spec.path, zone_uuid), time_budget_s=time_budget_s)
