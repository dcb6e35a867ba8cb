"""Filters by the hosts of the instances that a request's hints name."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class SameHostFilter(BaseHostFilter):
    """Passes hosts that have one of the instances that the hint `same_host` names; all without this hint.

    Reads: the hint `same_host`, the uuid of an instance or a list of such. Only living instances of the same
    project count, in whatever zone of the tree; where none of them is, no host passes. A request with the
    hint is filtered so even where this filter is not enabled.

    Example: `"os:scheduler_hints": {"same_host": ["8c19174f-4220-44f0-824a-cd1eeef10287"]}` puts a cache
    beside its database.
    """

    code = "not_the_same_host"
    run_filter_once_per_request = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return not spec.same_host or host_state.uuid in host_state.context.same_hosts

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        if not spec.same_host:
            return hosts.everyone
        return hosts.among(hosts.context.same_hosts)


class DifferentHostFilter(BaseHostFilter):
    """Passes hosts that have none of the instances that the hint `different_host` names.

    Reads: the hint `different_host`, the uuid of an instance or a list of such. Only living instances of the
    same project count, in whatever zone of the tree; uuids of others remove no host. A request with the hint
    is filtered so even where this filter is not enabled.

    Example: `"os:scheduler_hints": {"different_host": ["8c19174f-4220-44f0-824a-cd1eeef10287"]}` keeps a
    replica off its primary's host.
    """

    code = "not_a_different_host"
    run_filter_once_per_request = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.uuid not in host_state.context.different_hosts

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return ~hosts.among(hosts.context.different_hosts)
