"""Avoids hosts on which builds have failed lately."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class BuildFailureWeigher(BuiltInWeigher):
    """Avoids hosts on which builds have failed lately, without taking them out of rotation.

    Raw value: `failed_builds`, the builds that failed there since the last that succeeded. The scale starts
    at 0, and the multiplier is subtracted: a host without failures neither gains nor loses.
    Multiplier: option `build_failure_weight_multiplier` (1000000.0, so that it outweighs free resources),
    or the aggregate metadata of that name. Not every failure is the fault of the host: with a lower value
    the other weighers decide more often.

    Example: with 0 and 2 failed builds the scores are 0 and -1000000: the second host is chosen only when
    the first has no free capacity.
    """

    multiplier_key = "build_failure_weight_multiplier"
    multiplier_sign = -1.0
    minval = 0.0

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.failed_builds)

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.failed_builds
