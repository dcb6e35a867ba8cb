"""A filter by the free amount of one resource class, of the capacity that claims are checked with."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class FreeAmountFilter(BaseHostFilter):
    """Passes hosts with enough of `resource_class` left for one instance."""

    resource_class: str
    implied_by_free_slots = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        amount = spec.resources.get(self.resource_class, 0)
        left = host_state.capacity(self.resource_class) - host_state.used(self.resource_class)
        return amount == 0 or left >= amount

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        amount = spec.resources.get(self.resource_class, 0)
        if amount == 0:
            return hosts.everyone
        return hosts.have_left(self.resource_class, amount)
