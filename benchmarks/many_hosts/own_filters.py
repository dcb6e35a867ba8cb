"""Filters as an operator may write them: `host_passes` and nothing else."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.host_state import HostState
from zonesched.model.request_spec import RequestSpec


class OncePerClass(BaseHostFilter):
    """Reads a static fact, and says so: it is asked once for all hosts that share theirs."""

    shared_facts_only = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return bool(host_state.capabilities["kind"] != "kind-0")


class OncePerHost(BaseHostFilter):
    """Reads what changes with each boot: it is asked about every host that the filters before it left."""

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.num_instances < 5
