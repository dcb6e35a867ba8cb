"""Prefers hosts with more instances, or with fewer."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class NumInstancesWeigher(BuiltInWeigher):
    """Prefers hosts with more instances (positive multiplier) or with fewer (negative), whatever their size.

    Raw value: `num_instances`, the number of living instances on the host, including those of this request.
    Multiplier: option `num_instances_weight_multiplier` (0.0: does nothing), or the aggregate metadata of
    that name.

    Example: with 2 and 10 instances and multiplier -1.0 the scores are 0 and -1: the emptier host comes
    first.
    """

    multiplier_key = "num_instances_weight_multiplier"

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.num_instances)

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.num_instances
