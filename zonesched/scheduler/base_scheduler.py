"""The base class of all schedulers: filter, weigh, pick greedily.

A scheduler decides which local hosts a request gets; it never calls a child zone and writes nothing. The base
class gives every host weight 1, so only the tie keys decide, and hosts are taken at random.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from numbers import Integral
from typing import Any

import numpy as np

from zonesched.errors import BadRequest
from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.host_list_filter import HostListFilter
from zonesched.model.arrays import Ints
from zonesched.model.build_plan import MAX_WEIGHT, FunnelStep
from zonesched.model.decision_trace import HostJudgement, HostScore, ScorePart
from zonesched.model.host_state import HostTuple, host_tuple
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import CostFunction, CostWeighing, RequestSpec, Unweighed, Weighing
from zonesched.model.work_deadline import NO_DEADLINE, OutOfTime, WorkDeadline
from zonesched.scheduler.choice import THE_BEST, Choice
from zonesched.scheduler.funnel import Survivors, answers_for, check_filter, passes_of, run_funnel
from zonesched.scheduler.greedy import REFUSED
from zonesched.scheduler.offer import Offer, OfferRequest, Pick
from zonesched.scheduler.plugins import Plugins
from zonesched.scheduler.scale import Range
from zonesched.scheduler.score import hosts_up, observed_ranges
from zonesched.scheduler.selection import HostWeighing, Selection
from zonesched.weights.contract import WeigherFailed

__all__ = ["BaseScheduler", "Offer", "OfferRequest", "Pick", "Range"]

log = logging.getLogger(__name__)


class BaseScheduler:
    """Gives every host weight 1, so each request takes hosts at random.

    A subclass overrides `weigh`, or the methods of the original document, which take plain lists:
    `filter_hosts` and `weigh_hosts`.

    When to use: to spread instances without regard to load, or as the base class of your own scheduler.

    Reads: `enabled_filters` and the filters that a request adds.

    Example: a hundred instances on ten hosts that each take fifty of them leave no host empty.
    """

    def __init__(self, plugins: Plugins, name: str = "") -> None:
        """`name`: this driver's name in the zone's configuration; by default its class name."""
        self.plugins = plugins
        self.name = name or type(self).__name__

    @property
    def choice(self) -> Choice:
        """The rule that selects one of the best hosts."""
        return THE_BEST

    @property
    def hosts_max_age_s(self) -> float:
        """Seconds that hosts in memory are used before they are read again; 0 reads them for each request."""
        return 0.0

    @property
    def cost_functions(self) -> tuple[CostFunction, ...]:
        """Cost functions of this scheduler, if it has any."""
        return ()

    def check(self, spec: RequestSpec) -> None:
        """Raise BadRequest, naming the field, for values that no zone with this configuration can read."""
        self._check(self._filters(spec), spec)

    def _check(self, filters: Sequence[BaseHostFilter], spec: RequestSpec) -> None:
        for host_filter in filters:
            check_filter(host_filter, spec)
        try:
            spec.resources  # noqa: B018
        except ValueError as error:
            raise BadRequest(f"flavor.extra_specs: {error}", field="flavor.extra_specs") from error

    def choose_weighing(
        self,
        table: HostTable,
        spec: RequestSpec,
        child_ranges: Mapping[str, Range],
        deadline: WorkDeadline = NO_DEADLINE,
    ) -> Weighing:
        """Choose how every zone of the tree weighs a request that a zone with children received.

        Raise OutOfTime.
        """
        return CostWeighing(self.name, self.cost_functions)

    def ranges(self, table: HostTable, deadline: WorkDeadline = NO_DEADLINE) -> dict[str, Range]:
        """Return the raw range of each configured weigher over the hosts that are up; empty if none is.

        Raise OutOfTime.
        """
        return observed_ranges(self.plugins.weighers.configured, hosts_up(table, deadline))

    def offer(self, request: OfferRequest) -> Offer:
        """Offer this zone's local hosts. Raise BadRequest, FilterFailed, WeigherFailed.

        If the deadline passes first, the offer has the hosts found until then and is not complete.
        """
        filters = self._filters(request.spec)
        self._check(filters, request.spec)
        return self._offer_among(run_funnel(request, filters, self.plugins.limits), filters, request)

    def _offer_among(
        self, survivors: Survivors, filters: Sequence[BaseHostFilter], request: OfferRequest
    ) -> Offer:
        if not survivors.complete:
            return Offer((), (), (), survivors.steps, weighing=request.spec.weighing, complete=False)
        try:
            return self._offer_of(survivors, filters, request)
        except OutOfTime as error:
            late = FunnelStep(self.name, error.code, len(survivors.hosts), 0)
            steps = (*survivors.steps, late)
            return Offer((), (), (), steps, weighing=request.spec.weighing, complete=False)

    def _offer_of(
        self, survivors: Survivors, filters: Sequence[BaseHostFilter], request: OfferRequest
    ) -> Offer:
        spec = self.with_weighing(survivors.hosts, request.spec)
        if len(survivors.hosts) == 0:
            return Offer((), (), (), survivors.steps, weighing=spec.weighing)
        selection = Selection.among(survivors, filters, self._weighing(spec), request.count, request.scored)
        return self._offer_from(selection, spec, request.scored)

    def _offer_from(
        self,
        selection: Selection,
        spec: RequestSpec,
        scored: int,
        prepare: Callable[[HostView], None] = lambda hosts: None,
    ) -> Offer:
        """Return the selection's offer with the scores of the best hosts, whose view is prepared before."""
        hosts, weights = selection.best(scored)
        prepare(hosts)
        try:
            best = self.scores(hosts, weights, spec)
        except OutOfTime:
            best = ()
        return selection.offer(spec.weighing, best)

    def scores(self, hosts: HostView, weights: Ints, spec: RequestSpec) -> tuple[HostScore, ...]:
        """Return the weight of each host of the view, and the parts of its score."""
        parts = self.score_parts(hosts, spec) if len(hosts) and not self._weighs_lists else []
        table, rows = hosts.table, hosts.row_numbers.tolist()
        of_each_host = zip(*parts, strict=True) if parts else repeat((), len(rows))
        columns = zip(
            map(table.host_id, rows), map(table.name, rows), weights.tolist(), of_each_host, strict=True
        )
        return tuple(map(HostScore._make, columns))

    def score_parts(self, hosts: HostView, spec: RequestSpec) -> Sequence[Sequence[ScorePart]]:
        """Return the parts of each host's score, by weigher or cost function; empty if there are none."""
        return []

    def judge(self, request: OfferRequest, row: int) -> HostJudgement:
        """Judge the host of one row by every filter, independently of the other filters, and score it.

        Raise BadRequest, FilterFailed.
        """
        spec, table = request.spec, request.table
        answers = answers_for(request, self._filters(spec), self.plugins.limits, row)
        host = HostView(table, np.array([row]), spec, request.context)
        try:
            weights = self._weighing(spec).weights(host)
            score = self.scores(host, weights, spec) if weights[0] != REFUSED else ()
        except WeigherFailed:
            score = ()
        return HostJudgement(table.host_id(row), table.name(row), answers, score)

    def with_weighing(self, hosts: HostView, spec: RequestSpec) -> RequestSpec:
        """Return the spec with a weighing; choose one from the filtered hosts if the spec has none."""
        if not isinstance(spec.weighing, Unweighed):
            return spec
        return replace(spec, weighing=CostWeighing(self.name, self.cost_functions))

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        """Return the integer weight of each host of the view, 0..2**53-1, lower is better."""
        return np.ones(len(hosts), dtype=np.int64)

    def shortlist(self, hosts: HostView, spec: RequestSpec, count: int) -> HostView:
        """Return a subset with every host that weighs no more than the `count`-th best; by default all."""
        return hosts

    def filter_hosts(self, spec: RequestSpec, hosts: list[HostTuple]) -> list[HostTuple]:
        """Select the (host name, report) tuples that pass the request's filters."""
        filters = self.plugins.filters.for_request(spec)
        return [host for host in hosts if all(passes_of(f, host[1].state, spec) for f in filters)]

    def weigh_hosts(self, spec: RequestSpec, hosts: list[HostTuple]) -> list[dict[str, Any]]:
        """Return a dict with `weight` (integer, lower is better) and `hostname` for each host, in any order.

        An override is called once with all hosts, then with each picked host again; a host that it leaves out
        is not offered.
        """
        if not hosts:
            return []
        states = [report.state for _, report in hosts]
        rows = np.array([state.row for state in states], dtype=np.int64)
        placed = np.array([state.placed for state in states], dtype=np.int64)
        view = HostView(states[0].table, rows, spec, states[0].context, placed)
        weights = self.weigh(view, spec).tolist()
        pairs = zip(weights, hosts, strict=True)
        return [{"weight": weight, "hostname": name} for weight, (name, _) in pairs]

    def _weighing(self, spec: RequestSpec) -> HostWeighing:
        return HostWeighing(
            self.name,
            lambda hosts: self._weights(hosts, spec),
            one_by_one=self._weighs_lists,
            choice=self.choice,
            shortlist=lambda hosts, count: self.shortlist(hosts, spec, count),
        )

    @property
    def _weighs_lists(self) -> bool:
        return type(self).weigh_hosts is not BaseScheduler.weigh_hosts

    def _weights(self, hosts: HostView, spec: RequestSpec) -> Ints:
        if not self._weighs_lists:
            return self._in_limits(np.asarray(self.weigh(hosts, spec)), len(hosts))
        tuples = [host_tuple(state) for state in hosts.states()]
        return self._read_weights([name for name, _ in tuples], self.weigh_hosts(spec, tuples))

    def _in_limits(self, weights: Ints, count: int) -> Ints:
        if weights.shape != (count,) or not np.issubdtype(weights.dtype, np.integer):
            log.error("weigh of %s gave not one whole number per host", self.name)
            raise WeigherFailed(self.name, "scheduler")
        if count and not 0 <= weights.min() <= weights.max() <= MAX_WEIGHT:
            weights = np.clip(weights, 0, MAX_WEIGHT)
        return weights.astype(np.int64, copy=False)

    @property
    def _is_by_filters(self) -> bool:
        """Tell whether the request's filters decide, and no list of hosts that a subclass returns."""
        return type(self).filter_hosts is BaseScheduler.filter_hosts

    def _filters(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        if self._is_by_filters:
            return self.plugins.filters.for_request(spec)
        own = HostListFilter(type(self).__name__, "refused_by_scheduler", self.filter_hosts)
        return (own, *self.plugins.filters.added_by(spec))

    def _read_weights(self, names: Sequence[str], answer: Sequence[Mapping[str, Any]]) -> Ints:
        weights = np.full(len(names), REFUSED, dtype=np.int64)
        index_of = {name: index for index, name in enumerate(names)}
        for line in answer:
            weight, index = line.get("weight"), index_of.get(line.get("hostname", ""))
            if index is None or isinstance(weight, bool) or not isinstance(weight, Integral):
                log.error("weigh_hosts of %s gave %r", self.name, line)
                raise WeigherFailed(self.name, "scheduler")
            weights[index] = min(max(int(weight), 0), MAX_WEIGHT)
        return weights
