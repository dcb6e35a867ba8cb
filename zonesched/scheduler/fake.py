"""A scheduler for tests, with a predictable choice."""

from __future__ import annotations

import numpy as np

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Ints
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.base_scheduler import BaseScheduler


class FakeScheduler(BaseScheduler):
    """Takes hosts in the order of their names, whatever filters are configured and even if agents are down.

    The choice is predictable: the first host by name is filled before the next. The weight of a host is its
    position in that order, from 0.

    When to use: in tests of the code around a scheduler.

    Reads: free slots, and the filters that a request adds; no option.

    Example: of empty hosts `a`, `b` and `c` with two free slots each, three instances go to `a`, `a` and `b`.
    """

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        table = hosts.table
        alive = np.flatnonzero(table.alive).tolist()
        place = np.zeros(table.size, dtype=np.int64)
        place[sorted(alive, key=table.name)] = np.arange(len(alive))
        return place[hosts.rows]

    def _filters(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        return self.plugins.filters.added_by(spec)
