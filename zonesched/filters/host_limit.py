"""A count of each host that must stay below a limit: one for the zone, or one per aggregate."""

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
    """Passes hosts of which `counted`, an attribute of host states and views, is below the option `limit`."""

    counted: str
    limit: str

    def __init__(self, most: float) -> None:
        self._most = most

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf[cls.limit])

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return bool(getattr(host_state, self.counted) < self._most)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        counts: Floats = getattr(hosts, self.counted)
        return counts < self._most


class AggregateHostLimitFilter(HostLimitFilter):
    """As the limit of the zone, unless an aggregate of the host has metadata named as the option."""

    def __init__(self, most: float) -> None:
        super().__init__(most)
        self._numbers = MetadataNumbers(self.limit)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        most = self._numbers.smallest(host_state.aggregates, self._most)
        return bool(getattr(host_state, self.counted) < most)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        counts: Floats = getattr(hosts, self.counted)
        return counts < hosts.numbers_by_aggregates(
            lambda aggregates: self._numbers.smallest(aggregates, self._most)
        )
