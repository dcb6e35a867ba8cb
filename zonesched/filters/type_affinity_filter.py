"""One instance of a flavor per host."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class TypeAffinityFilter(BaseHostFilter):
    """Passes hosts that have no instance of the request's flavor.

    Reads: the id of the request's flavor, and the flavors of the living instances of a host, whoever owns
    them. Of one request's own instances, too, no two share a host.

    Example: three instances of the flavor `large` go to three hosts, none of which had a `large` one before.
    """

    code = "flavor_on_host"

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.flavor_instances(spec.flavor.id) == 0

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        passed: Bools = hosts.flavor_instances == 0
        return passed
