"""The scheduler that takes the least loaded host."""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Ints
from zonesched.model.build_plan import MAX_WEIGHT
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import VCPU, RequestSpec
from zonesched.scheduler.base_scheduler import BaseScheduler


class SimpleScheduler(BaseScheduler):
    """Weighs each host by its claimed VCPUs: the fewest first.

    When to use: one number is enough, and hosts are of about the same size.

    Reads: `enabled_filters`, the filters that a request adds, and the claimed VCPUs of each host, including
    the instances of this request already placed there.

    Example: of hosts with 3, 0 and 5 VCPUs claimed, two instances of 4 VCPUs go to the second and then the
    first.
    """

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        return np.clip(hosts.used(VCPU), 0.0, float(MAX_WEIGHT)).astype(np.int64)
