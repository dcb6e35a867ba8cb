"""Filter for hosts in the requested availability zone."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class AvailabilityZoneFilter(BaseHostFilter):
    """Passes hosts of the request's availability zone; all, if it names none.

    Reads: the request's `availability_zone`, and a host's: what an aggregate of it says in its metadata
    `availability_zone`, else what its agent reports. Both are compared letter by letter.

    Example: `"availability_zone": "az-east"` goes to the hosts of an aggregate with `availability_zone =
    az-east`, and to no host that is in no availability zone.
    """

    code = "wrong_availability_zone"
    shared_facts_only = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return spec.availability_zone in ("", host_state.availability_zone)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        if not spec.availability_zone:
            return hosts.everyone
        return hosts.by_availability_zone(lambda name: name == spec.availability_zone)
