"""Every host passes."""

from __future__ import annotations

import numpy as np

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class AllHostsFilter(BaseHostFilter):
    """Passes all hosts, those of a dead agent too."""

    code = "all_hosts"
    shared_facts_only = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return True

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return np.ones(len(hosts), dtype=np.bool_)
