"""Filter for hosts with the required traits and without forbidden ones."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class TraitsFilter(BaseHostFilter):
    """Passes hosts with all required, no forbidden, and one of each any-of group of the request's traits.

    Reads: the flavor's extra specs `trait:NAME = required`, `trait:NAME = forbidden` and `traits:any_of =
    A,B;C,D` (one of A and B, and one of C and D), the image's properties `trait:NAME = required`, and the
    traits that the host's agent reports.

    Example: a flavor with `trait:HW_CPU_X86_AVX2 = required` and `trait:CUSTOM_SPOT = forbidden` goes to
    hosts with the first and without the second.
    """

    code = "traits_not_met"
    RUN_ON_REBUILD = True
    shared_facts_only = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return spec.traits.matches(host_state.traits)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return hosts.by_traits(spec.traits.matches)
