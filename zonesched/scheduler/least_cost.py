"""The original document's scheduler of costs: a host's weight is the weighted sum of its costs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from zonesched.errors import ZoneschedError
from zonesched.model.arrays import Floats, Ints
from zonesched.model.build_plan import MAX_WEIGHT
from zonesched.model.decision_trace import ScorePart
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import CostFunction, CostWeighing, RequestSpec
from zonesched.plugin import ANY_ERROR
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.weights.contract import WeigherFailed

log = logging.getLogger(__name__)


class LeastCostScheduler(BaseScheduler):
    """Weighs each host by the sum of its costs, each times its factor: the cheapest first.

    The sum is rounded to a whole number between 0 and 2^53 - 1. The zone that received the user's request
    names the functions, and every zone of the request must have them.

    When to use: you have cost functions, or a tree of zones that weighs by them.

    Reads: `least_cost_functions`, and `special_host_capability` for `plain_on_special_cost`;
    `enabled_filters` and the filters that a request adds.

    Example: with `least_cost_functions = spread_first_cost=1.0,owner_on_host_cost=500.0`, a host with 2000 MB
    claimed costs 2000, and 3000 where two instances of the same owner run on it.
    """

    @property
    def cost_functions(self) -> tuple[CostFunction, ...]:
        return self.plugins.costs.configured

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        functions = self._functions(spec)
        total = np.zeros(len(hosts))
        # A product beyond float64 is infinite and can still be ordered; only inf - inf cannot.
        with np.errstate(over="ignore", invalid="ignore"):
            for function in functions:
                total += function.weight * self._costs(function, hosts, spec)
        if np.isnan(total).any():
            raise WeigherFailed(" + ".join(function.name for function in functions), "cost function")
        return np.clip(np.rint(total), 0.0, float(MAX_WEIGHT)).astype(np.int64)

    def score_parts(self, hosts: HostView, spec: RequestSpec) -> Sequence[Sequence[ScorePart]]:
        found = []
        for function in self._functions(spec):
            costs = self._costs(function, hosts, spec)
            # A product beyond float64 becomes the largest float64: JSON has no infinity.
            with np.errstate(over="ignore"):
                products = np.nan_to_num(function.weight * costs)
            pairs = zip(costs.tolist(), products.tolist(), strict=True)
            found.append(
                [ScorePart(function.name, cost, function.weight, product) for cost, product in pairs]
            )
        return found

    def _functions(self, spec: RequestSpec) -> tuple[CostFunction, ...]:
        weighing = spec.weighing
        own = self.plugins.costs.configured
        return weighing.functions if isinstance(weighing, CostWeighing) else own

    def _costs(self, function: CostFunction, hosts: HostView, spec: RequestSpec) -> Floats:
        try:
            costs = np.asarray(self.plugins.costs.named(function.name).costs(hosts, spec), dtype=np.float64)
        except ZoneschedError:
            raise
        except ANY_ERROR as error:
            log.exception("cost function %s failed", function.name)
            raise WeigherFailed(function.name, "cost function") from error
        if costs.shape != (len(hosts),) or not np.isfinite(costs).all():
            log.error("cost function %s gave no finite number per host", function.name)
            raise WeigherFailed(function.name, "cost function")
        return costs
