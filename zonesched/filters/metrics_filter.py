"""Filter for hosts that report every metric of MetricsWeigher."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np

from zonesched.conf import Conf
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.ratios import read_ratios


class MetricsFilter(BaseHostFilter):
    """Passes hosts whose agent reports every metric that `metrics_weight_setting` names.

    Reads: option `metrics_weight_setting`, a list of name=ratio, of which only the names matter here, and the
    `metrics` of the agent's inventory. Where the option names none, all hosts pass.

    Example: with `metrics_weight_setting = load=-1.0, heat=-0.5` a host that reports `load` alone is left
    out.
    """

    code = "metric_missing"
    run_filter_once_per_request = True

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(read_ratios(conf.metrics_weight_setting))

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return all(name in host_state.metrics for name in self._names)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return hosts.all_of(~np.isnan(hosts.metric(name)) for name in self._names)
