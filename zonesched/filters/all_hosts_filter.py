"""Filter that every host passes."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class AllHostsFilter(BaseHostFilter):
    """Passes all hosts, also disabled ones and those whose agent is unreachable.

    Reads: nothing. Whether the instance fits is checked all the same, whatever filters are enabled.

    Example: with `enabled_filters = AllHostsFilter` a disabled host with enough free capacity is offered.
    """

    code = "all_hosts"
    shared_facts_only = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return True

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return hosts.everyone
