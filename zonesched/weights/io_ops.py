"""Prefers hosts that build fewer instances."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class IoOpsWeigher(BuiltInWeigher):
    """Prefers hosts with less heavy work of disk and network.

    Raw value: `num_io_ops`, the instances that are being built there, this request's own placed ones
    included. The scale starts at 0. Multiplier: option `io_ops_weight_multiplier` (-1.0), or the
    aggregate metadata of that name; it is negative, since less is better, and a positive one prefers busy
    hosts.

    Example: with 0 and 4 builds under way and multiplier -1.0 the scores are 0 and -1.
    """

    multiplier_key = "io_ops_weight_multiplier"
    minval = 0.0

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.num_io_ops)

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.num_io_ops
