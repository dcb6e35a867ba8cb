"""Filter for hosts that match the request's query."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.json_query import Query, parse_query
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class JSONFilter(BaseHostFilter):
    """Passes hosts for which the request's query holds; all, if there is none.

    Reads: the hint `query`, a JSON list, or its text, whose first element is an operator. `= < > <= >=`
    compare the first operand with each of the others, `in` looks for it among them; `and`, `or` and `not`
    take such lists, or `true` and `false`. Every host meets an empty list. `< > <= >=` compare numbers only.
    A value that a host does not have, or that is of another kind, meets no comparison. A text that starts
    with `$` is one of the host's numbers
    (`$free_ram_mb`, `$total_usable_ram_mb`, `$free_disk_mb`, `$total_usable_disk_gb`, `$disk_mb_used`,
    `$vcpus_total`, `$vcpus_used`) or a path into its capabilities (`$capabilities.cpu_info.vendor`;
    `$cpu_info`, `$hypervisor_type`, `$hypervisor_version` and `$supported_instances` also without
    `capabilities.`). Any other variable is refused: names, addresses and ids of hosts, and counts of
    instances, are never read. A query has at most 256 operands and 16,384 characters. A request with a query
    is filtered by it even where this filter is not enabled; a query that is not of this form is refused
    (`filter_query_invalid`).

    Example: `["and", [">=", "$free_ram_mb", 1024], ["in", "$capabilities.gpu", "a100", "h100"]]`.
    """

    code = "query_not_met"

    def check(self, spec: RequestSpec) -> None:
        self._query(spec)

    def changes_with_picks(self, spec: RequestSpec) -> bool:
        query = self._query(spec)
        return query is not None and query.reads_numbers

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        query = self._query(spec)
        return query is None or query.holds(host_state)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        query = self._query(spec)
        if query is None:
            return hosts.everyone
        return query.hold(hosts)

    def _query(self, spec: RequestSpec) -> Query | None:
        if not spec.filter_query:
            return None
        if self not in spec.readings:
            spec.readings[self] = parse_query(spec.filter_query)
        query: Query = spec.readings[self]
        return query
