"""Filters that keep a count of each host below a maximum: one for the zone, or one per aggregate."""

from __future__ import annotations

from typing import Self

from zonesched.conf import Conf
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools, Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.metadata_numbers import MetadataNumbers
from zonesched.model.request_spec import RequestSpec


class HostLimitFilter(BaseHostFilter):
    """Passes hosts whose count is below the option `limit`.

    `counted` is the attribute of host states and views that holds the count.
    """

    counted: str
    limit: str

    def __init__(self, maximum: float) -> None:
        self._maximum = maximum

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf[cls.limit])

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return bool(getattr(host_state, self.counted) < self._maximum)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        counts: Floats = getattr(hosts, self.counted)
        return counts < self._maximum


class AggregateHostLimitFilter(HostLimitFilter):
    """Passes hosts below the smallest maximum of their aggregates, else below the option.

    The key in the metadata has the name of the option.
    """

    def __init__(self, maximum: float) -> None:
        super().__init__(maximum)
        self._numbers = MetadataNumbers(self.limit)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        maximum = self._numbers.smallest(host_state.aggregates, self._maximum)
        return bool(getattr(host_state, self.counted) < maximum)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        counts: Floats = getattr(hosts, self.counted)
        return counts < hosts.numbers_by_aggregates(
            lambda aggregates: self._numbers.smallest(aggregates, self._maximum)
        )
