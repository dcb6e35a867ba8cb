"""Prefers hosts with a newer hypervisor."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.hypervisor_version import version_number
from zonesched.model.request_spec import RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class HypervisorVersionWeigher(BuiltInWeigher):
    """Prefers hosts with a newer hypervisor.

    Raw value: the capability `hypervisor_version`, which is a whole number as OpenStack's drivers report
    it, or a text "major.minor.micro" that counts as 1000000, 1000 and 1 of each; 0 where a host reports
    none. Multiplier: option `hypervisor_version_weight_multiplier` (1.0), or the aggregate metadata of
    that name; negative prefers older ones. Versions of different hypervisors mean different things: set
    the multiplier to 0 in the aggregate of hosts that should not take part.

    Example: hosts with "7.1.123" and "8.2.0" have the raw values 7001123 and 8002000 and the scores 0 and
    1.
    """

    multiplier_key = "hypervisor_version_weight_multiplier"

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(version_number(host_state.capabilities.get("hypervisor_version")))

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.hypervisor_versions
