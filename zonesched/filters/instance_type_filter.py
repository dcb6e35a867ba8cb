"""The original document's filter by the flavor's memory and disk."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, RequestSpec


class InstanceTypeFilter(BaseHostFilter):
    """Passes hosts with enough memory and disk left for the flavor.

    It is RamFilter and DiskFilter in one, as the original document has it; CPUs do not matter to it.

    Reads: the flavor's RAM and disk, or its extra specs `resources:MEMORY_MB` and `resources:DISK_GB` in
    their place, and the host's capacity of both less what claims take.

    Example: a flavor of 2048 MB and 20 GB passes a host with 2048 MB and 20 GB left, and neither one with
    2047 MB nor one with 19 GB.
    """

    code = "instance_type_too_large"
    implied_by_free_slots = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return all(
            host_state.capacity(name) - host_state.used(name) >= spec.resources[name]
            for name in (MEMORY_MB, DISK_GB)
            if name in spec.resources
        )

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        wanted = [name for name in (MEMORY_MB, DISK_GB) if name in spec.resources]
        return hosts.all_of(hosts.have_left(name, spec.resources[name]) for name in wanted)
