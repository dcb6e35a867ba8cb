"""Prefers hosts with more free VCPUs."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import VCPU, RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class CPUWeigher(BuiltInWeigher):
    """Prefers hosts with more free VCPUs.

    Raw value: VCPUs that claims may still take, the allocation ratio included (capacity - used); below 0
    on a host that shrank. The scale starts at 0. Multiplier: option `cpu_weight_multiplier` (1.0), or the
    aggregate metadata of that name; negative stacks instead of spreading.

    Example: a host of 16 VCPUs with ratio 4.0 and 10 claimed has the raw value 54.
    """

    multiplier_key = "cpu_weight_multiplier"
    minval = 0.0

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.capacity(VCPU) - host_state.used(VCPU))

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.left(VCPU)
