"""Which filters a zone knows, by name: built-in ones, and those its configuration names by dotted path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.errors import BadRequest, ConfigError
from zonesched.filters.aggregate_image_properties_isolation import AggregateImagePropertiesIsolation
from zonesched.filters.aggregate_instance_extra_specs_filter import AggregateInstanceExtraSpecsFilter
from zonesched.filters.aggregate_multi_tenancy_isolation import AggregateMultiTenancyIsolation
from zonesched.filters.aggregate_type_affinity_filter import AggregateTypeAffinityFilter
from zonesched.filters.all_hosts_filter import AllHostsFilter
from zonesched.filters.availability_zone_filter import AvailabilityZoneFilter
from zonesched.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from zonesched.filters.compute_filter import ComputeFilter
from zonesched.filters.contract import AbstractHostFilter, BaseHostFilter
from zonesched.filters.core_filter import CoreFilter
from zonesched.filters.disk_filter import DiskFilter
from zonesched.filters.host_list_filter import adapt
from zonesched.filters.image_properties_filter import ImagePropertiesFilter
from zonesched.filters.instance_type_filter import InstanceTypeFilter
from zonesched.filters.isolated_hosts_filter import IsolatedHostsFilter
from zonesched.filters.json_filter import JSONFilter
from zonesched.filters.ram_filter import RamFilter
from zonesched.filters.resource_class_filter import ResourceClassFilter
from zonesched.filters.simple_cidr_affinity_filter import SimpleCIDRAffinityFilter
from zonesched.filters.traits_filter import TraitsFilter
from zonesched.model.request_spec import RequestSpec
from zonesched.plugin import load_dotted

BUILT_IN: Mapping[str, type[BaseHostFilter]] = {
    cls.__name__: cls
    for cls in (
        AggregateImagePropertiesIsolation,
        AggregateInstanceExtraSpecsFilter,
        AggregateMultiTenancyIsolation,
        AggregateTypeAffinityFilter,
        AllHostsFilter,
        AvailabilityZoneFilter,
        ComputeCapabilitiesFilter,
        ComputeFilter,
        CoreFilter,
        DiskFilter,
        ImagePropertiesFilter,
        InstanceTypeFilter,
        IsolatedHostsFilter,
        JSONFilter,
        RamFilter,
        ResourceClassFilter,
        SimpleCIDRAffinityFilter,
        TraitsFilter,
    )
}

OLDER_NAMES: Mapping[str, str] = {"JsonFilter": "JSONFilter"}
"""Other names under which a built-in filter is found."""

OPTION = "default_host_filters"


@dataclass(frozen=True)
class HostFilters:
    """The filters every request passes, in order, and all that a request may add by name."""

    default: tuple[BaseHostFilter, ...]
    known: Mapping[str, BaseHostFilter]

    @classmethod
    def from_conf(cls, conf: Conf) -> HostFilters:
        """Raises ConfigError that names an unknown filter and the known ones."""
        names = [OLDER_NAMES.get(name, name) for name in conf[OPTION]]
        own = {name: _load(name, conf) for name in names if name not in BUILT_IN}
        known = {name: built_in.from_conf(conf) for name, built_in in BUILT_IN.items()} | own
        return cls(tuple(known[name] for name in names), known)

    def for_request(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        """The default filters, then those the request adds; each once.

        A query brings its own filter along. Raises as `added_by`.
        """
        return tuple(dict.fromkeys((*self.default, *self.added_by(spec))))

    def added_by(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        """Only those the request adds. Raises BadRequest for a name that this zone does not know."""
        names = (*spec.filters, JSONFilter.__name__) if spec.filter_query else spec.filters
        return tuple(self._named(name) for name in names)

    def _named(self, name: str) -> BaseHostFilter:
        found = self.known.get(OLDER_NAMES.get(name, name))
        if found is None:
            raise BadRequest(
                f"There is no host filter {name!r} here.", code="filter_unknown", field="filters"
            )
        return found


def built_in_filters(names: Sequence[str]) -> HostFilters:
    """Only built-in filters with their default settings."""
    known = {name: built_in() for name, built_in in BUILT_IN.items()}
    return HostFilters(tuple(known[name] for name in names), known)


def _load(path: str, conf: Conf) -> BaseHostFilter:
    loaded = load_dotted(OPTION, path, BUILT_IN)
    if isinstance(loaded, type) and issubclass(loaded, BaseHostFilter):
        return loaded.from_conf(conf)
    if isinstance(loaded, type) and issubclass(loaded, AbstractHostFilter):
        return adapt(loaded())
    raise ConfigError(
        f"Option {OPTION}: {path} is neither a BaseHostFilter nor an AbstractHostFilter.", field=OPTION
    )
