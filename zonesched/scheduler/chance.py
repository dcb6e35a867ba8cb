"""The scheduler that chooses hosts by chance: the same chance for the same request id, in every process."""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Ints
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.model.tie_break import draw
from zonesched.scheduler.base_scheduler import BaseScheduler


class ChanceScheduler(BaseScheduler):
    """Weighs each host by a pseudo-random number, drawn anew for each instance that is already on it.

    The number is drawn by the request's id and the host: the same in every process and at every repeat of the
    request, another for another request.

    When to use: hosts are alike, and their load shall be spread without looking at it.

    Reads: `enabled_filters` and what a request adds to them; no load of any host.

    Example: of 100 empty hosts and one nearly full, the last is as likely as each other, as long as it has
    room.
    """

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        placed = np.zeros(len(hosts), dtype=np.int64) if hosts.copies is None else hosts.copies
        return (draw(hosts.ties(), placed) >> np.uint64(11)).astype(np.int64)
