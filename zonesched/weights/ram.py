"""Prefers hosts with more free RAM."""

from __future__ import annotations

from typing import Self

from zonesched.conf import Conf
from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import MEMORY_MB, RequestSpec
from zonesched.weights.contract import BaseHostWeigher


class RAMWeigher(BaseHostWeigher):
    """free_ram_mb: usable RAM that no claim takes, in MB, without any allocation ratio."""

    minval = 0.0

    def __init__(self, multiplier: float = 1.0) -> None:
        self._multiplier = multiplier

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf.ram_weight_multiplier)

    def weight_multiplier(self) -> float:
        return self._multiplier

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.free_ram_mb)

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.free(MEMORY_MB)
