"""Filter for hosts without an instance of the request's flavor."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class TypeAffinityFilter(BaseHostFilter):
    """Passes hosts that have no instance of the request's flavor.

    Reads: the id of the request's flavor, and the flavors of the living instances on the host. For a zone's
    own users the instances of all of them count; for a parent zone, only those that it has placed itself:
    zones share no flavors, and no parent learns where others have instances. Two instances of one request do
    not share a host either.

    Example: three instances of the flavor `large` go to three hosts without an instance of that flavor.
    """

    code = "flavor_on_host"

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.flavor_instances(spec.flavor.id) == 0

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        passed: Bools = hosts.flavor_instances == 0
        return passed
