"""A filter by the exact free amount of one resource class."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class ExactFreeAmountFilter(BaseHostFilter):
    """Passes hosts whose free amount of `resource_class` is exactly what one instance takes."""

    resource_class: str

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        usable = host_state.total(self.resource_class) - host_state.reserved(self.resource_class)
        free = usable - host_state.used(self.resource_class)
        return free == spec.resources.get(self.resource_class, 0)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        passed: Bools = hosts.free(self.resource_class) == spec.resources.get(self.resource_class, 0)
        return passed
