"""Avoids hosts on which builds have failed lately."""

from __future__ import annotations

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class BuildFailureWeigher(BuiltInWeigher):
    """Avoids hosts on which builds have failed lately, without taking them out of rotation.

    Raw value: minus `failed_builds`, the builds that failed there since the last that did not.
    Multiplier: option `build_failure_weight_multiplier` (1000000.0, so that it outweighs free resources),
    or the aggregate metadata of that name. Not each failure is the host's fault: a lower value lets the
    other weighers speak.

    Example: with 0 and 2 failed builds the raw values are 0 and -2 and the scores 1000000 and 0: the
    second host is chosen only when the first has no room.
    """

    multiplier_key = "build_failure_weight_multiplier"

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return 0.0 - host_state.failed_builds

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return 0.0 - hosts.failed_builds
