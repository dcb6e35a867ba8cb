"""Filter for hosts where the request has not failed before."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class RetryFilter(BaseHostFilter):
    """Passes hosts whose claim or build has not failed for this very request.

    Reads: the zone's own rows of the request's attempts within `retry_window`. Where a host was tried, a
    request passes this filter before all others, whether it is enabled or not.

    Example: a build fails on `host-3`; the request is scheduled again, to any host but `host-3`.
    """

    code = "refused_before"
    run_filter_once_per_request = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.uuid not in host_state.context.tried_hosts

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return ~hosts.among(hosts.context.tried_hosts)
