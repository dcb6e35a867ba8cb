"""The scheduler that chooses hosts by chance: the same chance for the same request, in every process."""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Ints
from zonesched.model.build_plan import MAX_WEIGHT
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.seal.tie_keys import RequestTies


class ChanceScheduler(BaseScheduler):
    """Weighs each host by a pseudo-random number, drawn anew for each instance that is already on it.

    The number depends on the request and the host: the same in every process and at every repeat of the
    request, another for another request.

    When to use: hosts are equal, and their load shall be spread without looking at it.

    Reads: `enabled_filters` and what a request adds to them; no load of any host.

    Example: of 100 empty hosts and one nearly full, the last is as likely as each other, as long as it has
    a free slot.
    """

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        drawn = RequestTies(hosts.context.tie_key).values(hosts.host_hashes, hosts.placed)
        return (drawn >> np.uint64(64 - MAX_WEIGHT.bit_length())).astype(np.int64)
