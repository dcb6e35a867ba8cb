"""Filter for aggregates that are reserved for the request's project."""

from __future__ import annotations

from zonesched.filters.aggregate_metadata import values_by_key
from zonesched.filters.shared_facts_filter import Question, SharedFactsFilter
from zonesched.model.host_row import SharedFacts
from zonesched.model.request_spec import RequestSpec

TENANT_KEY = "filter_tenant_id"


class AggregateMultiTenancyIsolation(SharedFactsFilter):
    """Passes hosts whose aggregates are kept for no project, or for the request's.

    Reads: the metadata `filter_tenant_id` of a host's aggregates, a project id or several with commas, and
    all keys that start so (`filter_tenant_id2`, `filter_tenant_id_more`), for more projects than one value
    holds. With several such aggregates, the projects of all of them are let in. A project that is named there
    may also go to hosts that are kept for nobody.

    Example: an aggregate with `filter_tenant_id = 6ab,77c` takes instances of the projects 6ab and 77c only.
    """

    code = "aggregate_of_other_project"

    def question(self, spec: RequestSpec) -> Question:
        def lets_in(facts: SharedFacts) -> bool:
            values = values_by_key(facts.aggregates)
            kept_for = [projects for key, projects in values.items() if key.startswith(TENANT_KEY)]
            return not kept_for or any(spec.project_id in projects for projects in kept_for)

        return lets_in
