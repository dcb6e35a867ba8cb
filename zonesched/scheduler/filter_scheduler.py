"""The scheduler of filters and weighers: a host's score is the sum of its scaled raw values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.model.account import ScorePart
from zonesched.model.arrays import Ints
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec, ScoreWeighing, Weighing
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.choice import Choice
from zonesched.scheduler.funnel import run_funnel
from zonesched.scheduler.offer import OfferRequest
from zonesched.scheduler.scale import Range, merge_ranges, to_weight
from zonesched.scheduler.score import part_of_each_host, scale_of_hosts, scale_of_ranges, scores, weighed


class FilterScheduler(BaseScheduler):
    """Weighs by the request's scale; without one, by the scale of the zone's own filtered hosts."""

    @property
    def choice(self) -> Choice:
        return self.plugins.choice

    def choose_weighing(
        self, table: HostTable, spec: RequestSpec, child_ranges: Mapping[str, Range], has_children: bool
    ) -> Weighing:
        """The scale: of all hosts below and here where there are children, else of the filtered hosts."""
        if has_children:
            ranges = merge_ranges(child_ranges, self.ranges(table))
            return scale_of_ranges(self.plugins.weighers, ranges, spec)
        self.check(spec)
        survivors = run_funnel(OfferRequest(table, spec), self._filters(spec), self.plugins.limits)
        return scale_of_hosts(self.plugins.weighers, survivors.hosts, spec)

    def settle(self, hosts: HostView, spec: RequestSpec) -> RequestSpec:
        if isinstance(spec.weighing, ScoreWeighing):
            return spec
        return replace(spec, weighing=scale_of_hosts(self.plugins.weighers, hosts, spec))

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        if not isinstance(spec.weighing, ScoreWeighing):
            raise TypeError("a request must have a scale before it is weighed")
        return to_weight(scores(self.plugins.weighers, spec.weighing, hosts, spec))

    def score_parts(self, hosts: HostView, spec: RequestSpec) -> Sequence[Sequence[ScorePart]]:
        if not isinstance(spec.weighing, ScoreWeighing):
            return []
        parts = weighed(self.plugins.weighers, spec.weighing, hosts, spec)
        return [part_of_each_host(part, len(hosts)) for part in parts]
