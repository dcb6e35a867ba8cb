"""Room of one resource class, as a filter: the capacity it reads is the one a claim is checked with."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class RoomOfClassFilter(BaseHostFilter):
    """Passes hosts with room for one instance, as far as `resource_class` goes."""

    resource_class: str
    implied_by_room = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        amount = spec.resources.get(self.resource_class, 0)
        left = host_state.capacity(self.resource_class) - host_state.used(self.resource_class)
        return amount == 0 or left >= amount

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        amount = spec.resources.get(self.resource_class, 0)
        if amount == 0:
            return hosts.everyone
        return hosts.have_left(self.resource_class, amount)
