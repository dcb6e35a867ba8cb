"""The scheduler of filters and weighers: a host's score is the sum of its scaled raw values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from zonesched.model.arrays import Ints
from zonesched.model.decision_trace import ScorePart
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import NoGroup, RequestSpec, ScoreWeighing, Weighing
from zonesched.model.work_deadline import NO_DEADLINE, OutOfTime, WorkDeadline
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.choice import Choice
from zonesched.scheduler.funnel import run_funnel
from zonesched.scheduler.kept_selection import (
    KeptSelection,
    are_built_in,
    have_built_in,
    is_reusable,
    kept_in,
    may_be_kept,
)
from zonesched.scheduler.offer import Offer, OfferRequest
from zonesched.scheduler.scale import Range, merge_ranges, to_weight
from zonesched.scheduler.score import (
    check_unscaled,
    parts_of_each_host,
    scale_of_hosts,
    scale_of_ranges,
    scores,
)
from zonesched.scheduler.selection import Selection, wanted
from zonesched.scheduler.shortlist import shortlist
from zonesched.weights.contract import BaseHostWeigher, WeigherFailed
from zonesched.weights.registry import HostWeighers


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

    # The demands of the last request without hints that built-in filters had nothing against.
    _checked: tuple[object, ...] = ()

    @property
    def choice(self) -> Choice:
        return self.plugins.choice

    def check(self, spec: RequestSpec) -> None:
        """Check a request as `BaseScheduler.check` does; users mostly ask for one flavor after another."""
        demands = (
            spec.flavor,
            spec.image,
            spec.filters,
            spec.filter_query,
            spec.enabled,
            spec.availability_zone,
        )
        is_plain = not spec.hints and isinstance(spec.group, NoGroup) and self._is_by_filters
        if is_plain and demands == self._checked:
            return
        filters = self._filters(spec)
        self._check(filters, spec)
        if is_plain and have_built_in(filters):
            self._checked = demands

    def choose_weighing(
        self,
        table: HostTable,
        spec: RequestSpec,
        child_ranges: Mapping[str, Range],
        deadline: WorkDeadline = NO_DEADLINE,
    ) -> Weighing:
        """Choose the scale over local hosts and those in child zones. Raise OutOfTime, WeigherFailed."""
        ranges = merge_ranges(child_ranges, self.ranges(table, deadline))
        return scale_of_ranges(self.plugins.weighers, ranges, spec)

    def with_weighing(self, hosts: HostView, spec: RequestSpec) -> RequestSpec:
        if isinstance(spec.weighing, ScoreWeighing):
            if not spec.path:
                check_unscaled(self.plugins.weighers, spec.weighing, hosts, spec)
            return spec
        return replace(spec, weighing=scale_of_hosts(self.plugins.weighers, hosts, spec))

    def offer(self, request: OfferRequest) -> Offer:
        """Offer this zone's local hosts, as `BaseScheduler.offer` does, also from a kept selection."""
        is_by_rule = self._is_by_score and self._is_by_filters and self.choice.subset_size == 1
        if not (is_by_rule and may_be_kept(request)):
            return super().offer(request)
        try:
            return self._offer_kept(request)
        except (OutOfTime, WeigherFailed):
            # The offer says so for the filter that it stopped at, or fails if the weigher decides anything.
            return super().offer(request)

    def _offer_kept(self, request: OfferRequest) -> Offer:
        spec, weighers = request.spec, self.plugins.weighers
        count = wanted(spec, self.choice, request.count, request.scored)
        shelf = kept_in(request.table)
        # Taken out: what raises leaves it incomplete.
        kept = shelf.take(request, weighers)
        weighed = kept.weigh_again(request, count) if kept is not None else None
        if kept is None or weighed is None:
            filters = self._filters(spec)
            self._check(filters, spec)
            survivors = run_funnel(request, filters, self.plugins.limits)
            if not (is_reusable(survivors) and are_built_in(filters, _weighers_for(weighers, spec))):
                return self._offer_among(survivors, filters, request)
            kept = KeptSelection(request, survivors, filters, weighers)
            weighing = self.with_weighing(survivors.hosts, spec).weighing
            assert isinstance(weighing, ScoreWeighing)
            weighed = kept.weigh_anew(survivors.hosts, weighing, count)
        spec = spec.varied(weighing=weighed.weighing)
        selection = Selection(
            weighed.hosts,
            weighed.weights,
            kept.steps,
            kept.again,
            self._weighing(spec),
            request.count,
            request.scored,
        )
        offer = self._offer_from(selection, spec, request.scored, kept.name_raw_values)
        shelf.put(kept)
        return offer

    @property
    def _is_by_score(self) -> bool:
        """Tell whether hosts are weighed by their scores alone."""
        return type(self).weigh is FilterScheduler.weigh and not self._weighs_lists

    def shortlist(self, hosts: HostView, spec: RequestSpec, count: int) -> HostView:
        if not (self._is_by_score and isinstance(spec.weighing, ScoreWeighing)):
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


def _weighers_for(weighers: HostWeighers, spec: RequestSpec) -> Iterable[BaseHostWeigher]:
    """Return the weighers of the scale that a request brings along, else those that are configured."""
    if isinstance(spec.weighing, ScoreWeighing):
        return [weighers.named(scale.weigher) for scale in spec.weighing.scales]
    return weighers.configured.values()
