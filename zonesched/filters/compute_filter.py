"""Filter for hosts that are enabled and up."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class ComputeFilter(BaseHostFilter):
    """Passes hosts that are enabled and whose agent is alive.

    Reads: whether an operator has disabled the host, or forced it or its agent down, and whether its agent
    sent a heartbeat in the last `service_down_time` seconds.

    Example: with `service_down_time = 60`, the hosts of an agent whose last heartbeat is 61 seconds old take
    no new instances until the next heartbeat; the instances that they have stay.
    """

    code = "host_not_available"
    run_filter_once_per_request = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.enabled and host_state.up

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return hosts.enabled & hosts.up
