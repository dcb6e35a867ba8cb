"""Filter for hosts whose capabilities match the flavor's extra specs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.extra_spec_demands import demands_of
from zonesched.filters.json_operand import NUMBER_COLUMNS, RESOURCE_COLUMNS
from zonesched.filters.requirement import Requirement, follow
from zonesched.model.arrays import Bools
from zonesched.model.dictionary_encoded import Lasting
from zonesched.model.host_row import SharedFacts
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec

SCOPE = "capabilities"

_Path = tuple[str, ...]


class ComputeCapabilitiesFilter(BaseHostFilter):
    """Passes hosts whose capabilities meet the flavor's extra specs; all, if it has none of this filter's.

    Reads: extra specs `capabilities:KEY`, nested as `capabilities:cpu_info:features`, and those without any
    scope; those of other scopes (`resources:`, `trait:`, `hw:`, `quota:`, ...) are not its own. KEY is a
    capability that the host's agent reports (`hypervisor_type`, `hypervisor_version`, `cpu_info`, or any
    other), or one of the numbers `free_ram_mb`, `total_usable_ram_mb`, `free_disk_mb`,
    `total_usable_disk_gb`, `disk_mb_used`, `vcpus_total`, `vcpus_used`, `num_instances` and `num_io_ops`. A
    host that does not report KEY is not passed. Names, addresses and ids of hosts are not capabilities, and
    neither are `num_instances` and `num_io_ops` for a request from a parent zone: they count the instances of
    everybody, so no host passes there.

    The value starts with one of `= == != >= <=` (numbers; `=` is at least), `s== s!= s>= s> s<= s<` (texts),
    `<in>` (substring), `<all-in>` (all of these), `<or>` (one of these); without any it is `s==`. For a
    request from a parent zone, which could else read a text letter by letter, `s>= s> s<= s<` pass no host,
    and `<in>` and `<all-in>` look for whole words.

    Extra specs without a scope are read by AggregateInstanceExtraSpecsFilter as well: with both filters
    enabled, host and aggregate must both meet them. A scope avoids that.

    Example: `capabilities:cpu_info:features = <in> avx512`, `capabilities:hypervisor_version = >= 2012000`,
    `capabilities:num_instances = <= 10`.
    """

    code = "capabilities_not_met"

    def check(self, spec: RequestSpec) -> None:
        _demands(spec)

    def changes_with_picks(self, spec: RequestSpec) -> bool:
        return any(_is_number(path, spec) for path, _ in _demands(spec))

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return all(
            requirement.met_by(
                getattr(host_state, path[0])
                if _is_number(path, spec)
                else follow(host_state.capabilities, path)
            )
            for path, requirement in _demands(spec)
        )

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        met_by: list[Bools] = []
        of_facts: list[tuple[_Path, Requirement]] = []
        for path, requirement in _demands(spec):
            if _is_number(path, spec):
                numbers, number_of = np.unique(NUMBER_COLUMNS[path[0]](hosts), return_inverse=True)
                met = [requirement.met_by(int(number)) for number in numbers]
                met_by.append(np.array(met, dtype=np.bool_)[number_of])
            else:
                of_facts.append((path, requirement))
        if of_facts:
            met_by.append(hosts.by_shared_facts(_Meets(tuple(of_facts))))
        return hosts.all_of(met_by)


@dataclass(frozen=True)
class _Meets(Lasting):
    demands: tuple[tuple[_Path, Requirement], ...]

    def __call__(self, facts: SharedFacts) -> bool:
        return all(requirement.met_by(follow(facts.capabilities, path)) for path, requirement in self.demands)


def _demands(spec: RequestSpec) -> list[tuple[_Path, Requirement]]:
    if SCOPE not in spec.readings:
        demands = demands_of(spec, SCOPE)
        spec.readings[SCOPE] = [(tuple(key.split(":")), demand) for key, demand in demands]
    found: list[tuple[_Path, Requirement]] = spec.readings[SCOPE]
    return found


def _is_number(path: _Path, spec: RequestSpec) -> bool:
    """Tell whether the path is a number of the host that the request may read."""
    readable = RESOURCE_COLUMNS if spec.path else NUMBER_COLUMNS
    return len(path) == 1 and path[0] in readable
