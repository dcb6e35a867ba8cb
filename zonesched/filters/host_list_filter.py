"""Adapters for filters that take and return lists of host tuples, as in the original document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zonesched.filters.contract import AbstractHostFilter, BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState, HostTuple, host_tuple
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec

KeepHosts = Callable[[RequestSpec, list[HostTuple]], list[HostTuple]]


class HostListFilter(BaseHostFilter):
    """A filter that asks a function from list to list; no list has a host twice."""

    def __init__(self, name: str, code: str, keep: KeepHosts) -> None:
        self._name = name
        self.code = code
        self._keep = keep

    @property
    def name(self) -> str:
        return self._name

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return len(self._keep(spec, [host_tuple(host_state)])) > 0

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        passed = np.zeros(len(hosts), dtype=np.bool_)
        placed = np.zeros(len(hosts), dtype=np.int64) if hosts.copies is None else hosts.copies
        tuples = [host_tuple(state) for state in hosts.states()]
        for copies in np.unique(placed):
            group = np.flatnonzero(placed == copies)
            kept = {name for name, _ in self._keep(spec, [tuples[index] for index in group])}
            passed[group] = [tuples[index][0] in kept for index in group]
        return passed

    @property
    def vectorised(self) -> bool:
        return False


class InstanceType:
    """A flavor under the attribute names of the original document."""

    def __init__(self, spec: RequestSpec) -> None:
        self.name = spec.flavor.name
        self.flavorid = spec.flavor.id
        self.memory_mb = spec.flavor.ram_mb
        self.vcpus = spec.flavor.vcpus
        self.local_gb = spec.flavor.disk_gb
        self.extra_specs = dict(spec.flavor.extra_specs)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)


def adapt(document_filter: AbstractHostFilter) -> HostListFilter:
    """Return a filter of the document's form as a BaseHostFilter."""

    def keep(spec: RequestSpec, hosts: list[HostTuple]) -> list[HostTuple]:
        query = document_filter.instance_type_to_filter(InstanceType(spec))
        return document_filter.filter_hosts(hosts, query)

    return HostListFilter(type(document_filter).__name__, document_filter.code, keep)
