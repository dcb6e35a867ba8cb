"""Limits that the zone's aggregates set on the hosts of a request, applied before any filter.

The rules and their options are those of OpenStack Nova's request filters. Each zone applies its own rules to
the request; zones exchange nothing about aggregates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.filters.aggregate_metadata import values_by_key
from zonesched.filters.aggregate_multi_tenancy_isolation import TENANT_KEY
from zonesched.filters.shared_facts_filter import Question
from zonesched.model.aggregate import AVAILABILITY_ZONE, Aggregate
from zonesched.model.host_row import SharedFacts
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import RequestSpec, required_traits


@dataclass(frozen=True)
class Limit:
    """One rule for one request: its option, its stable code, and the test of the hosts that it admits."""

    name: str
    code: str
    lets_in: Question


@dataclass(frozen=True)
class AggregateLimits:
    """The enabled rules; see the options of the same names."""

    limit_tenants_to_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    query_placement_for_availability_zone: bool = False
    enable_isolated_aggregate_filtering: bool = False

    @classmethod
    def from_conf(cls, conf: Conf) -> AggregateLimits:
        return cls(**{name: conf[name] for name in cls.__dataclass_fields__})

    def for_request(self, table: HostTable, spec: RequestSpec) -> Iterator[Limit]:
        """Yield the rules that concern the request. Aggregates without hosts are ignored."""
        if self.limit_tenants_to_aggregate:
            yield from self._of_tenant(table, spec)
        if self.query_placement_for_availability_zone and spec.availability_zone:
            yield from self._of_zone(table, spec)
        if self.enable_isolated_aggregate_filtering:
            yield _of_isolation(spec)

    def _of_tenant(self, table: HostTable, spec: RequestSpec) -> Iterator[Limit]:
        def lets_in(facts: SharedFacts) -> bool:
            return any(_is_of_tenant(aggregate, spec.project_id) for aggregate in facts.aggregates)

        if self.placement_aggregate_required_for_tenants or _any_host(table, lets_in):
            yield Limit("limit_tenants_to_aggregate", code="outside_aggregates_of_project", lets_in=lets_in)

    def _of_zone(self, table: HostTable, spec: RequestSpec) -> Iterator[Limit]:
        def lets_in(facts: SharedFacts) -> bool:
            zones = (aggregate.metadata.get(AVAILABILITY_ZONE) for aggregate in facts.aggregates)
            return spec.availability_zone in zones

        if _any_host(table, lets_in):
            name = "query_placement_for_availability_zone"
            yield Limit(name, code="outside_aggregates_of_zone", lets_in=lets_in)


NO_LIMITS = AggregateLimits()


def _of_isolation(spec: RequestSpec) -> Limit:
    def lets_in(facts: SharedFacts) -> bool:
        wanted = spec.traits.required
        return all(required_traits(aggregate.metadata) <= wanted for aggregate in facts.aggregates)

    return Limit("enable_isolated_aggregate_filtering", code="isolated_aggregate", lets_in=lets_in)


def _is_of_tenant(aggregate: Aggregate, project_id: str) -> bool:
    values = values_by_key([aggregate])
    return any(project_id in projects for key, projects in values.items() if key.startswith(TENANT_KEY))


def _any_host(table: HostTable, question: Question) -> bool:
    return any(question(facts) for facts in table.shared_facts.distinct())
