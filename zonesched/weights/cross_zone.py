"""Prefers the hosts of the zone that was asked to those of its child zones."""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.weights.built_in import BuiltInWeigher


class CrossZoneWeigher(BuiltInWeigher):
    """Prefers the hosts of the zone that took the user's request to those of all its child zones.

    Raw value: 1 in that zone and 0 in every other, decided by whether the request has passed another
    zone before. The scale is 0 to 1, the same for every request. Multiplier: option
    `cross_zone_weight_multiplier` (0.0: does nothing, and the best host of the tree is chosen wherever it
    is), or the aggregate metadata of that name; negative prefers the child zones. OpenStack's
    name for the like of it is `CrossCellWeigher`.

    Example: with multiplier 3.0, and RAM, CPU and disk at 1.0, any local host with capacity comes before all
    others.
    """

    multiplier_key = "cross_zone_weight_multiplier"
    minval = 0.0
    maxval = 1.0

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return 0.0 if spec.path else 1.0

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return np.zeros(len(hosts)) if spec.path else np.ones(len(hosts))
