"""Filter for hosts in aggregates whose metadata matches the flavor's extra specs."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.filters.aggregate_metadata import values_by_key
from zonesched.filters.extra_spec_demands import demands_of
from zonesched.filters.requirement import Requirement
from zonesched.filters.shared_facts_filter import Question, SharedFactsFilter, any_host
from zonesched.model.dictionary_encoded import Lasting
from zonesched.model.host_row import SharedFacts
from zonesched.model.request_spec import RequestSpec

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(SharedFactsFilter):
    """Passes hosts whose aggregates' metadata meets the flavor's extra specs; all, if it has none.

    Reads: extra specs `aggregate_instance_extra_specs:KEY` and those without any scope, with the operators
    of ComputeCapabilitiesFilter, and the metadata KEY of all aggregates of a host together; a value of
    metadata may name several with commas. One of the values must meet the requirement. A host whose
    aggregates have no KEY, or that is in no aggregate, is not passed.

    Extra specs without a scope are read by ComputeCapabilitiesFilter as well.

    Example: a flavor with `aggregate_instance_extra_specs:ssd = true` goes to hosts of an aggregate with the
    metadata `ssd = true`; one with `aggregate_instance_extra_specs:rack = <or> a <or> b` to those with
    `rack = b,c`.
    """

    code = "aggregate_extra_specs_not_met"

    def question(self, spec: RequestSpec) -> Question:
        demands = tuple(demands_of(spec, SCOPE))
        return _Meets(demands) if demands else any_host


@dataclass(frozen=True)
class _Meets(Lasting):
    demands: tuple[tuple[str, Requirement], ...]

    def __call__(self, facts: SharedFacts) -> bool:
        values = values_by_key(facts.aggregates)
        return all(any(map(demand.met_by, values.get(key, ()))) for key, demand in self.demands)
