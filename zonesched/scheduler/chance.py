"""The scheduler that chooses hosts pseudo-randomly: one request gets the same choice in every process."""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Ints
from zonesched.model.build_plan import MAX_WEIGHT
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.seal.tie_keys import RequestTies


class ChanceScheduler(BaseScheduler):
    """Weighs each host by a pseudo-random number, drawn again after each instance placed on it.

    The number depends only on the request, the host and the instances placed on it: it is the same in every
    process and at every repeat of the request.

    When to use: hosts are equal, and instances should spread without regard to load.

    Reads: `enabled_filters` and the filters that a request adds; no load of any host.

    Example: of 100 empty hosts and one nearly full host, all are equally likely, as long as the last has a
    free slot.
    """

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        drawn = RequestTies(hosts.context.tie_key).values(hosts.host_hashes, hosts.placed)
        return (drawn >> np.uint64(64 - MAX_WEIGHT.bit_length())).astype(np.int64)
