"""State of one host for filters and weighers, with the attribute names of OpenStack Nova.

It is a view of a row of the host table; virtual consumption is added to the view and never to the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zonesched.model.aggregate import Aggregate
from zonesched.model.class_columns import ClassColumns
from zonesched.model.host_row import SharedFacts, flavor_key
from zonesched.model.host_table import HostTable
from zonesched.model.request_context import NOTHING_KNOWN, RequestContext
from zonesched.model.request_spec import DISK_GB, MB_PER_GB, MEMORY_MB, VCPU, RequestSpec


class HostState:
    """A row with its virtual consumption; `context` has the zone's facts about the request."""

    __slots__ = ("_added", "_flavor", "_image", "_taken", "context", "row", "table")

    def __init__(self, table: HostTable, row: int, context: RequestContext = NOTHING_KNOWN) -> None:
        self.table = table
        self.row = row
        self.context = context
        self._taken: dict[str, int] = {}
        self._added = 0
        self._flavor = ""
        self._image = ""

    def consume(self, spec: RequestSpec, copies: int = 1) -> None:
        """Consume the resources of `copies` instances of the request, in this view only."""
        for resource_class, amount in spec.resources.items():
            self._taken[resource_class] = self._taken.get(resource_class, 0) + copies * amount
        self._added += copies
        self._flavor = spec.flavor.id
        self._image = spec.image_key

    @property
    def placed(self) -> int:
        """Instances of the request that are virtually on this host."""
        return self._added

    def total(self, resource_class: str) -> int:
        return self._cell(resource_class, "total")

    def reserved(self, resource_class: str) -> int:
        return self._cell(resource_class, "reserved")

    def capacity(self, resource_class: str) -> int:
        """Whole units that claims may take together: the number that the check of a claim uses."""
        return self._cell(resource_class, "capacity")

    def used(self, resource_class: str) -> int:
        """Units that claims and virtually placed instances take."""
        return self._cell(resource_class, "used") + self._taken.get(resource_class, 0)

    def allocation_ratio(self, resource_class: str) -> float:
        return float(self._columns(resource_class).allocation_ratio[self.row])

    def admits(self, resource_class: str, amount: int) -> bool:
        """Tell whether the inventory's units allow one instance to take `amount`."""
        columns = self._columns(resource_class)
        within = columns.min_unit[self.row] <= amount <= columns.max_unit[self.row]
        return bool(within and amount % columns.step_size[self.row] == 0)

    @property
    def host(self) -> str:
        return self.table.name(self.row)

    @property
    def nodename(self) -> str:
        return self.table.name(self.row)

    @property
    def hypervisor_hostname(self) -> str:
        return self.table.name(self.row)

    @property
    def uuid(self) -> str:
        return self.table.host_id(self.row)

    @property
    def host_ip(self) -> str:
        return self.table.addresses[self.row]

    @property
    def enabled(self) -> bool:
        return bool(self.table.enabled[self.row])

    @property
    def up(self) -> bool:
        """Tell whether the host's agent is up and the host is not forced down."""
        return bool(self.table.up[self.row])

    @property
    def availability_zone(self) -> str:
        return self.shared_facts.availability_zone

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self.shared_facts.capabilities

    @property
    def traits(self) -> frozenset[str]:
        return self.shared_facts.traits

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return self.shared_facts.aggregates

    @property
    def shared_facts(self) -> SharedFacts:
        """Static facts that this host may share with others."""
        return self.table.shared_facts[self.row]

    @property
    def hypervisor_type(self) -> str:
        """Hypervisor type that the host's agent reports; "" if it reports none."""
        return str(self.capabilities.get("hypervisor_type", ""))

    @property
    def hypervisor_version(self) -> Any:
        """A number (2012000 for 2.12.0) or a text, as the host's agent reports it; 0 if it reports none."""
        return self.capabilities.get("hypervisor_version", 0)

    @property
    def cpu_info(self) -> Any:
        """A mapping, or its JSON text, as the host's agent reports it; empty if it reports none."""
        return self.capabilities.get("cpu_info", {})

    @property
    def supported_instances(self) -> Sequence[Any]:
        """Lists of [architecture, hypervisor type, vm mode] that the host's agent reports."""
        reported = self.capabilities.get("supported_instances")
        return reported if isinstance(reported, list) else []

    @property
    def num_instances(self) -> int:
        return int(self.table.num_instances[self.row]) + self._added

    @property
    def owner_instances(self) -> int:
        """Living instances of the request's owner on this host."""
        return self.table.owners.count(self.row, self.context.owner) + self._added

    @property
    def group_instances(self) -> int:
        """Living instances of the request's server group on this host; 0 for a request without one."""
        if not self.context.group:
            return 0
        return self.group_members - self._has_own_place + self._added

    @property
    def _has_own_place(self) -> bool:
        own = self.context.moves.group_member_on
        return own != "" and self.row in self.table.rows_of([own])

    @property
    def group_members(self) -> int:
        """Variant of `group_instances` without virtually placed instances."""
        return self.table.groups.count(self.row, self.context.group) if self.context.group else 0

    @property
    def group_is_here(self) -> bool:
        """Tell whether any host of this zone has a living instance of the request's server group."""
        return self.table.groups.has(self.context.group)

    def flavor_instances(self, flavor_id: str) -> int:
        """Living instances of a flavor on this host that the request's caller has placed."""
        added = self._added if flavor_id == self._flavor else 0
        return self.table.flavors.count(self.row, flavor_key(self.context.caller, flavor_id)) + added

    def image_score(self, scores: Mapping[str, float]) -> float:
        """Return the sum of the living instances' scores; `scores` is by image key."""
        counts = self.table.images.of_row(self.row)
        score = 0.0
        for key in sorted(counts.keys() & scores.keys()):
            score += counts[key] * scores[key]
        return score + self._added * scores.get(self._image, 0.0)

    @property
    def num_io_ops(self) -> int:
        """Instances that are being built: the operations that keep a host's disks busy."""
        return int(self.table.num_building[self.row]) + self._added

    @property
    def failed_builds(self) -> int:
        """Number of builds that failed since the last successful one."""
        return int(self.table.failed_builds[self.row])

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics that the host's agent reports, by name."""
        cells = {name: float(self.table.metric(name)[self.row]) for name in self.table.metric_names}
        return {name: value for name, value in cells.items() if not math.isnan(value)}

    @property
    def total_usable_ram_mb(self) -> int:
        return self.total(MEMORY_MB) - self.reserved(MEMORY_MB)

    @property
    def free_ram_mb(self) -> int:
        """Usable RAM that no claim takes, without any allocation ratio; below 0 on an over-committed host."""
        return self.total_usable_ram_mb - self.used(MEMORY_MB)

    @property
    def total_usable_disk_gb(self) -> int:
        return self.total(DISK_GB) - self.reserved(DISK_GB)

    @property
    def disk_mb_used(self) -> int:
        return self.used(DISK_GB) * MB_PER_GB

    @property
    def free_disk_mb(self) -> int:
        """Usable disk in MB that no claim takes, without any allocation ratio."""
        return (self.total_usable_disk_gb - self.used(DISK_GB)) * MB_PER_GB

    @property
    def vcpus_total(self) -> int:
        return self.total(VCPU) - self.reserved(VCPU)

    @property
    def vcpus_used(self) -> int:
        return self.used(VCPU)

    @property
    def cpu_allocation_ratio(self) -> float:
        return self.allocation_ratio(VCPU)

    @property
    def ram_allocation_ratio(self) -> float:
        return self.allocation_ratio(MEMORY_MB)

    @property
    def disk_allocation_ratio(self) -> float:
        return self.allocation_ratio(DISK_GB)

    def _columns(self, resource_class: str) -> ClassColumns:
        return self.table.columns(resource_class)

    def _cell(self, resource_class: str, column: str) -> int:
        return int(getattr(self._columns(resource_class), column)[self.row])


RESOURCE_NUMBERS = (
    "free_ram_mb",
    "total_usable_ram_mb",
    "free_disk_mb",
    "total_usable_disk_gb",
    "disk_mb_used",
    "vcpus_total",
    "vcpus_used",
    "num_instances",
    "num_io_ops",
)
"""Numeric attributes of a host state that change with claims and inventories."""


class HostReport(Mapping[str, Any]):
    """Second element of the original document's host tuple: capabilities, and RESOURCE_NUMBERS by name."""

    __slots__ = ("state",)

    def __init__(self, state: HostState) -> None:
        self.state = state

    def __getitem__(self, key: str) -> Any:
        if key in RESOURCE_NUMBERS:
            return getattr(self.state, key)
        return self.state.capabilities[key]

    def __iter__(self) -> Iterator[str]:
        yield from RESOURCE_NUMBERS
        yield from (key for key in self.state.capabilities if key not in RESOURCE_NUMBERS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


HostTuple = tuple[str, HostReport]


def host_tuple(state: HostState) -> HostTuple:
    """Return (host name, report), the form in which the original document passes hosts to schedulers."""
    return state.host, HostReport(state)
