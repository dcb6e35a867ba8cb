"""The filters of a zone by name: the built-in ones, and those that its configuration names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from zonesched.conf import Conf
from zonesched.errors import ConfigError, FilterUnknown
from zonesched.filters.aggregate_image_properties_isolation import AggregateImagePropertiesIsolation
from zonesched.filters.aggregate_instance_extra_specs_filter import AggregateInstanceExtraSpecsFilter
from zonesched.filters.aggregate_multi_tenancy_isolation import AggregateMultiTenancyIsolation
from zonesched.filters.aggregate_type_affinity_filter import AggregateTypeAffinityFilter
from zonesched.filters.all_hosts_filter import AllHostsFilter
from zonesched.filters.availability_zone_filter import AvailabilityZoneFilter
from zonesched.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from zonesched.filters.compute_filter import ComputeFilter
from zonesched.filters.contract import AbstractHostFilter, BaseHostFilter
from zonesched.filters.core_filter import AggregateCoreFilter, CoreFilter
from zonesched.filters.disk_filter import AggregateDiskFilter, DiskFilter
from zonesched.filters.exact_core_filter import ExactCoreFilter
from zonesched.filters.exact_disk_filter import ExactDiskFilter
from zonesched.filters.exact_ram_filter import ExactRamFilter
from zonesched.filters.host_list_filter import adapt
from zonesched.filters.image_properties_filter import ImagePropertiesFilter
from zonesched.filters.instance_host_filter import DifferentHostFilter, SameHostFilter
from zonesched.filters.instance_type_filter import InstanceTypeFilter
from zonesched.filters.io_ops_filter import AggregateIoOpsFilter, IoOpsFilter
from zonesched.filters.isolated_hosts_filter import IsolatedHostsFilter
from zonesched.filters.json_filter import JSONFilter
from zonesched.filters.metrics_filter import MetricsFilter
from zonesched.filters.num_instances_filter import AggregateNumInstancesFilter, NumInstancesFilter
from zonesched.filters.ram_filter import AggregateRamFilter, RamFilter
from zonesched.filters.resource_class_filter import ResourceClassFilter
from zonesched.filters.retry_filter import RetryFilter
from zonesched.filters.server_group_filter import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    group_policy,
)
from zonesched.filters.simple_cidr_affinity_filter import SimpleCIDRAffinityFilter
from zonesched.filters.traits_filter import TraitsFilter
from zonesched.filters.type_affinity_filter import TypeAffinityFilter
from zonesched.model.own_zone import (
    ADDRESS_HINT,
    CIDR_HINT,
    AsConfigured,
    ChosenFilters,
    is_forced,
)
from zonesched.model.request_spec import GroupPolicy, RequestSpec
from zonesched.plugin import created, load_named

BUILT_IN: Mapping[str, type[BaseHostFilter]] = {
    cls.__name__: cls
    for cls in (
        AggregateCoreFilter,
        AggregateDiskFilter,
        AggregateImagePropertiesIsolation,
        AggregateInstanceExtraSpecsFilter,
        AggregateIoOpsFilter,
        AggregateMultiTenancyIsolation,
        AggregateNumInstancesFilter,
        AggregateRamFilter,
        AggregateTypeAffinityFilter,
        AllHostsFilter,
        AvailabilityZoneFilter,
        ComputeCapabilitiesFilter,
        ComputeFilter,
        CoreFilter,
        DifferentHostFilter,
        DiskFilter,
        ExactCoreFilter,
        ExactDiskFilter,
        ExactRamFilter,
        ImagePropertiesFilter,
        InstanceTypeFilter,
        IoOpsFilter,
        IsolatedHostsFilter,
        JSONFilter,
        MetricsFilter,
        NumInstancesFilter,
        RamFilter,
        ResourceClassFilter,
        RetryFilter,
        SameHostFilter,
        ServerGroupAffinityFilter,
        ServerGroupAntiAffinityFilter,
        SimpleCIDRAffinityFilter,
        TraitsFilter,
        TypeAffinityFilter,
    )
}

OLDER_NAMES: Mapping[str, str] = {
    "GroupAffinityFilter": ServerGroupAffinityFilter.__name__,
    "GroupAntiAffinityFilter": ServerGroupAntiAffinityFilter.__name__,
    "JsonFilter": JSONFilter.__name__,
}
"""Other names under which a built-in filter is found."""

BY_DATABASE: tuple[type[BaseHostFilter], ...] = (AvailabilityZoneFilter, TraitsFilter)
"""Filters with demands that a database can find hosts by; each claim demands free resources as well."""

OPTION, AVAILABLE = "enabled_filters", "available_filters"
GROUP = "zonesched.filters"
ALL_BUILT_IN = ("all_filters", "standard_filters")
"""Last part of the names of all built-in filters in `available_filters`, as in the documents."""


@dataclass(frozen=True)
class HostFilters:
    """The filters that every request passes, in order, and all filters that a request may add by name."""

    default: tuple[BaseHostFilter, ...]
    known: Mapping[str, BaseHostFilter]

    @classmethod
    def from_conf(cls, conf: Conf) -> HostFilters:
        """Raise ConfigError that names the option, the unknown filter and the known ones."""
        known: dict[str, BaseHostFilter] = {}
        for item in conf[AVAILABLE]:
            if item.rpartition(".")[2] in ALL_BUILT_IN:
                known |= {name: built_in.from_conf(conf) for name, built_in in BUILT_IN.items()}
            else:
                known |= _by_its_names(item, _make(AVAILABLE, item, conf))
        names = [OLDER_NAMES.get(name, name) for name in conf[OPTION]]
        for name in names:
            if name not in known:
                if name in BUILT_IN:
                    raise ConfigError(
                        f"Option {OPTION}: {name!r} is not among {AVAILABLE}: {', '.join(sorted(known))}.",
                        field=OPTION,
                    )
                known |= _by_its_names(name, _make(OPTION, name, conf))
        default = tuple(known[name] for name in names)
        # The policy of a server group holds whatever filters there are.
        for of_groups in (ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter):
            known.setdefault(of_groups.__name__, of_groups.from_conf(conf))
        return cls(default, known)

    def with_those_of_database(self, conf: Conf) -> HostFilters:
        """Enable also the filters whose demands the database meets where it finds the hosts."""
        enabled = {type(one) for one in self.default}
        missing = [one.from_conf(conf) for one in BY_DATABASE if one not in enabled]
        return replace(self, default=(*missing, *self.default))

    def for_request(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        """Return the enabled filters, then those that the request adds, each once.

        Enabled are those of the configuration, or what this zone's admin chose in their place; none for a
        request whose hosts the admin forces. Raises as `added_by`.
        """
        match spec.enabled:
            case ChosenFilters(names):
                enabled = tuple(self._named(name, "enabled_filters") for name in names)
            case AsConfigured():
                enabled = () if is_forced(spec.hints) else self.default
        return tuple(dict.fromkeys((*enabled, *self.added_by(spec))))

    @property
    def on_rebuild(self) -> tuple[BaseHostFilter, ...]:
        """The enabled filters that an instance must still pass for another image on its host."""
        return tuple(one for one in self.default if one.RUN_ON_REBUILD)

    def added_by(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        """Return the filters that the request names, and those that its hints, query or group need.

        Raises FilterUnknown for one that this zone does not have.
        """
        named = [self._named(name, "filters") for name in spec.filters]
        return (*named, *(self._needed_for(name, field) for name, field in _needed(spec)))

    def _named(self, name: str, field: str) -> BaseHostFilter:
        found = self.known.get(OLDER_NAMES.get(name, name))
        if found is None:
            # Not those of the zone's own configuration: who asks may be another zone.
            known = ", ".join(sorted(self.known.keys() & BUILT_IN.keys()))
            message = f"This zone has no host filter {name!r}. Of the built-in filters it has: {known}."
            raise FilterUnknown(message, filter_name=name, field=field)
        return found

    def _needed_for(self, name: str, field: str) -> BaseHostFilter:
        if name not in self.known:
            message = f"{field}: this needs the host filter {name}, which is not available in this zone."
            raise FilterUnknown(message, filter_name=name, field=field)
        return self.known[name]


def _needed(spec: RequestSpec) -> Iterator[tuple[str, str]]:
    """Yield the filters that the request needs, each with the field that needs it."""
    if spec.filter_query:
        yield JSONFilter.__name__, "filter_query"
    for hint in (ADDRESS_HINT, CIDR_HINT):
        if hint in spec.hints:
            yield SimpleCIDRAffinityFilter.__name__, f"hints.{hint}"
    if spec.same_host:
        yield SameHostFilter.__name__, "hints.same_host"
    if spec.different_host:
        yield DifferentHostFilter.__name__, "hints.different_host"
    match group_policy(spec):
        case GroupPolicy.AFFINITY:
            yield ServerGroupAffinityFilter.__name__, "group"
        case GroupPolicy.ANTI_AFFINITY:
            yield ServerGroupAntiAffinityFilter.__name__, "group"


def _by_its_names(item: str, host_filter: BaseHostFilter) -> Mapping[str, BaseHostFilter]:
    """Return a filter under both names that requests may use: as configured, and its class name."""
    return {item: host_filter, host_filter.name: host_filter}


def _make(option: str, item: str, conf: Conf) -> BaseHostFilter:
    loaded = BUILT_IN.get(OLDER_NAMES.get(item, item)) or load_named(option, GROUP, item, sorted(BUILT_IN))
    if not (isinstance(loaded, type) and issubclass(loaded, BaseHostFilter | AbstractHostFilter)):
        raise ConfigError(
            f"Option {option}: {item} is not a BaseHostFilter and not an AbstractHostFilter.", field=option
        )
    made = created(option, item, lambda: loaded.from_conf(conf))
    if not isinstance(made, BaseHostFilter | AbstractHostFilter):
        raise ConfigError(f"Option {option}: from_conf of {item} returns no filter.", field=option)
    if not (isinstance(made.code, str) and made.code):
        raise ConfigError(f"Option {option}: the code of {item} is not a text.", field=option)
    return made if isinstance(made, BaseHostFilter) else adapt(made)
