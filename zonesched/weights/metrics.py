"""Weighs hosts by the metrics that their agents report."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import numpy as np

from zonesched.conf import Conf
from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.ratios import read_ratios
from zonesched.weights.built_in import BuiltInWeigher


class MetricsWeigher(BuiltInWeigher):
    """Weighs hosts by the metrics that their agents report, in the ratios that the operator sets.

    Raw value: the sum of metric * ratio over option `metrics_weight_setting`, a list of name=ratio; a
    ratio of 0 leaves a metric out. Without a setting in the zone that took the request it has nothing to
    say. A host that does not report one of the metrics: with `metrics_required` (true) the request is
    refused in this weigher's name, so let MetricsFilter take such hosts out first; without, its raw value
    is `metrics_weight_of_unavailable` (-10000.0). A child zone with such a host offers nothing to the
    request; where no two hosts of the tree differ by the metrics, the weigher decides nothing, and child
    zones offer that host like any other. Each zone reads its own settings. Multiplier: option
    `metrics_weight_multiplier` (1.0), or the aggregate metadata of that name.

    Example: with `metrics_weight_setting = cpu.idle=1.0, heat=-0.5`, a host that reports 80 and 30 has
    the raw value 65.
    """

    multiplier_key = "metrics_weight_multiplier"

    def __init__(
        self,
        multiplier: float = 1.0,
        ratios: Iterable[tuple[str, float]] = (),
        required: bool = True,
        unavailable: float = -10_000.0,
    ) -> None:
        super().__init__(multiplier)
        self._ratios = {name: ratio for name, ratio in ratios if ratio}
        self._missing = math.nan if required else unavailable

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(
            conf[cls.multiplier_key],
            read_ratios(conf.metrics_weight_setting).items(),
            conf.metrics_required,
            conf.metrics_weight_of_unavailable,
        )

    def weighs(self, spec: RequestSpec) -> bool:
        return bool(self._ratios)

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        metrics, value = host_state.metrics, 0.0
        for name, ratio in self._ratios.items():
            if name not in metrics:
                return self._missing
            value += metrics[name] * ratio
        return value

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        value = np.zeros(len(hosts))
        for name, ratio in self._ratios.items():
            value += hosts.metric(name) * ratio
        # A missing metric makes a sum NaN, which NumPy calls the least of any values.
        if not len(value) or not np.isnan(value.min()):
            return value
        missing = np.zeros(len(hosts), dtype=np.bool_)
        for name in self._ratios:
            missing |= np.isnan(hosts.metric(name))
        return np.where(missing, self._missing, value)
