"""Prefers hosts with more free VCPUs."""

from __future__ import annotations

from typing import Self

from zonesched.conf import Conf
from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import VCPU, RequestSpec
from zonesched.weights.contract import BaseHostWeigher


class CPUWeigher(BaseHostWeigher):
    """VCPUs that claims may still take, the allocation ratio included."""

    minval = 0.0

    def __init__(self, multiplier: float = 1.0) -> None:
        self._multiplier = multiplier

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf.cpu_weight_multiplier)

    def weight_multiplier(self) -> float:
        return self._multiplier

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.capacity(VCPU) - host_state.used(VCPU))

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.left(VCPU)
