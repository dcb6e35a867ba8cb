"""Prefers hosts with members of the request's server group, or without."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import GroupPolicy, RequestSpec, ServerGroup
from zonesched.weights.built_in import BuiltInWeigher


class _SoftGroupWeigher(BuiltInWeigher):
    min_multiplier = 0.0
    policy: ClassVar[GroupPolicy]
    sign: ClassVar[float]

    def weighs(self, spec: RequestSpec) -> bool:
        return isinstance(spec.group, ServerGroup) and spec.group.policy is self.policy

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return 0.0 + self.sign * host_state.group_instances if self.weighs(spec) else 0.0

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return 0.0 + self.sign * hosts.group_instances if self.weighs(spec) else np.zeros(len(hosts))


class ServerGroupSoftAffinityWeigher(_SoftGroupWeigher):
    """Prefers hosts with more members of the request's server group, if its policy is soft-affinity.

    Raw value: the number of the group's living instances on the host, including those of this request; 0 for
    other requests. The scale is 0 to 1 whatever the hosts: one member is worth one multiplier, two are worth
    two. Multiplier: option `soft_affinity_weight_multiplier` (1.0), or the aggregate metadata of that name;
    a negative one is refused.

    Example: with multiplier 1.0, hosts with 0, 1 and 3 members score 0, 1 and 3.
    """

    multiplier_key = "soft_affinity_weight_multiplier"
    minval = 0.0
    maxval = 1.0
    policy = GroupPolicy.SOFT_AFFINITY
    sign = 1.0


class ServerGroupSoftAntiAffinityWeigher(_SoftGroupWeigher):
    """Prefers hosts with fewer members of the request's server group, if its policy is soft-anti-affinity.

    Raw value: minus the number of the group's living instances on the host, including those of this request;
    0 for other requests. The scale is -1 to 0 whatever the hosts: each member costs one multiplier.
    Multiplier: option `soft_anti_affinity_weight_multiplier` (1.0), or the aggregate metadata of that
    name; a negative one is refused.

    Example: with multiplier 1.0, hosts with 0, 1 and 3 members score 1, 0 and -2.
    """

    multiplier_key = "soft_anti_affinity_weight_multiplier"
    minval = -1.0
    maxval = 0.0
    policy = GroupPolicy.SOFT_ANTI_AFFINITY
    sign = -1.0
