"""Filter for hosts with enough of every resource class that the flavor requests."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU, RequestSpec

_OF_OTHER_FILTERS = frozenset({VCPU, MEMORY_MB, DISK_GB})


class ResourceClassFilter(BaseHostFilter):
    """Passes hosts with enough of every class but VCPU, MEMORY_MB and DISK_GB, and valid amounts of all.

    Reads: the flavor's extra specs `resources:CLASS`, each the amount of one instance, and the host's
    inventories: the capacity minus the claims, and for VCPU, MEMORY_MB and DISK_GB too whether `min_unit`,
    `max_unit` and `step_size` admit the amount. A host without an inventory of a class has none of it.

    Example: a flavor with `resources:CUSTOM_GPU = 2` goes to hosts with two CUSTOM_GPU left, unless their
    inventory has a `max_unit` of 1.
    """

    code = "not_enough_resources"
    implied_by_free_slots = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return all(
            host_state.admits(name, amount)
            and (name in _OF_OTHER_FILTERS or host_state.capacity(name) - host_state.used(name) >= amount)
            for name, amount in spec.resources.items()
        )

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        others = {name: spec.resources[name] for name in spec.resources if name not in _OF_OTHER_FILTERS}
        admitted = [hosts.admits(name) for name in spec.resources]
        return hosts.all_of([*admitted, *(hosts.have_left(name, others[name]) for name in others)])
