"""Prefers hosts with more free RAM."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import MEMORY_MB, RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class RAMWeigher(BuiltInWeigher):
    """Prefers hosts with more free RAM.

    Raw value: `free_ram_mb`, usable RAM (total - reserved) that no claim takes, in MB, without any
    allocation ratio; below 0 on an over-committed host. The scale starts at 0. Multiplier: option
    `ram_weight_multiplier` (1.0), or the aggregate metadata of that name; negative stacks instead of
    spreading.

    Example: with 1024 and 4096 MB free and multiplier 1.0 the scores are 0.25 and 1.
    """

    multiplier_key = "ram_weight_multiplier"
    minval = 0.0

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.free_ram_mb)

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.free(MEMORY_MB)
