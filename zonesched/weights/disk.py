"""Prefers hosts with more free disk."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import DISK_GB, MB_PER_GB, RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class DiskWeigher(BuiltInWeigher):
    """Prefers hosts with more free disk.

    Raw value: `free_disk_mb`, usable disk (total - reserved) that no claim takes, in MB, without any
    allocation ratio; below 0 on an over-committed host. The scale starts at 0. Multiplier: option
    `disk_weight_multiplier` (1.0), or the aggregate metadata of that name; negative stacks instead of
    spreading.

    Example: a host of 10 GB with 3 GB claimed has the raw value 7168.
    """

    multiplier_key = "disk_weight_multiplier"
    minval = 0.0

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.free_disk_mb)

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.free(DISK_GB) * MB_PER_GB
