"""Filter for aggregates that accept the flavor of the request."""

from __future__ import annotations

from zonesched.filters.aggregate_metadata import values_of
from zonesched.filters.shared_facts_filter import Question, SharedFactsFilter
from zonesched.model.host_row import SharedFacts
from zonesched.model.request_spec import RequestSpec

TYPE_KEY = "instance_type"


class AggregateTypeAffinityFilter(SharedFactsFilter):
    """Passes hosts whose aggregates name the request's flavor, or name none.

    Reads: the metadata `instance_type` of a host's aggregates: the name of a flavor, or several with
    commas; with several such aggregates, those of all of them.

    Example: hosts of an aggregate with `instance_type = m1.nano,m1.small` take these two flavors and no
    other.
    """

    code = "flavor_not_of_aggregate"

    def question(self, spec: RequestSpec) -> Question:
        def takes(facts: SharedFacts) -> bool:
            names = values_of(facts.aggregates, TYPE_KEY)
            return not names or spec.flavor.name in names

        return takes
