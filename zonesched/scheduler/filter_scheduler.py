"""The scheduler of filters and weighers: a host's score is the sum of its scaled raw values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.model.arrays import Ints
from zonesched.model.decision_trace import ScorePart
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec, ScoreWeighing, Weighing
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.choice import Choice
from zonesched.scheduler.scale import Range, merge_ranges, to_weight
from zonesched.scheduler.score import parts_of_each_host, scale_of_hosts, scale_of_ranges, scores
from zonesched.scheduler.shortlist import shortlist


class FilterScheduler(BaseScheduler):
    """Weighs each host by the sum of its scaled weighers, on one scale for the whole tree.

    A host that passes all filters has a raw value of each weigher. The scale brings the lowest of them (or
    the weigher's own bound) to 0 and the highest to 1, the multiplier weighs it, and the sum decides: the
    highest first. After each pick that host is weighed anew with what the instance takes. The zone that took
    the user's request chooses the scale, over the hosts of all zones below where it has children, else over
    its own filtered hosts; every zone of the request weighs by it.

    When to use: unless you have a reason for another: it sees every claim that was made before the request.

    Reads: `enabled_filters` and what a request adds to them, `weight_classes`, the option of each weigher's
    multiplier, `host_subset_size` and `shuffle_best_same_weighed_hosts`.

    Example: with `weight_classes = RAMWeigher`, of two hosts with 1024 and 4096 MB free the second scores 1
    and is taken, until what it was given leaves it with less than the first.
    """

    @property
    def choice(self) -> Choice:
        return self.plugins.choice

    def choose_weighing(
        self, table: HostTable, spec: RequestSpec, child_ranges: Mapping[str, Range]
    ) -> Weighing:
        """Choose the scale over this zone's hosts and the hosts in child zones."""
        ranges = merge_ranges(child_ranges, self.ranges(table))
        return scale_of_ranges(self.plugins.weighers, ranges, spec)

    def with_weighing(self, hosts: HostView, spec: RequestSpec) -> RequestSpec:
        if isinstance(spec.weighing, ScoreWeighing):
            return spec
        return replace(spec, weighing=scale_of_hosts(self.plugins.weighers, hosts, spec))

    def shortlist(self, hosts: HostView, spec: RequestSpec, count: int) -> HostView:
        is_by_score = type(self).weigh is FilterScheduler.weigh and not self._weighs_lists
        if not (is_by_score and isinstance(spec.weighing, ScoreWeighing)):
            return hosts
        return shortlist(self.plugins.weighers, spec.weighing, hosts, spec, count)

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        if not isinstance(spec.weighing, ScoreWeighing):
            raise TypeError("a request must have a scale before it is weighed")
        return to_weight(scores(self.plugins.weighers, spec.weighing, hosts, spec))

    def score_parts(self, hosts: HostView, spec: RequestSpec) -> Sequence[Sequence[ScorePart]]:
        if not isinstance(spec.weighing, ScoreWeighing):
            return []
        return parts_of_each_host(self.plugins.weighers, spec.weighing, hosts, spec)
