"""Selection of picks, alternates and bundles from the hosts that passed the filters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zonesched.errors import ZoneschedError
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools, Hashes, Ints
from zonesched.model.build_plan import TIE_BITS, FunnelStep
from zonesched.model.decision_trace import HostScore
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import Policy, RequestSpec, Weighing
from zonesched.model.work_deadline import OutOfTime
from zonesched.plugin import ANY_ERROR
from zonesched.scheduler.best import best
from zonesched.scheduler.choice import THE_BEST, Choice, Lots
from zonesched.scheduler.free_slots import free_slots
from zonesched.scheduler.funnel import Survivors, answers_of, changes_of
from zonesched.scheduler.greedy import (
    REFUSED,
    Candidates,
    Picks,
    pick_among_best,
    pick_in_blocks,
    pick_one_by_one,
)
from zonesched.scheduler.offer import Offer, Pick
from zonesched.scheduler.runs_out import reasons_of
from zonesched.seal.tie_keys import RequestTies
from zonesched.weights.contract import WeigherFailed

log = logging.getLogger(__name__)

_NONE_PLACED: Ints = np.zeros(1, dtype=np.int64)
"""Zero instances on each host, for any number of hosts."""


@dataclass(frozen=True)
class HostWeighing:
    """Weighing of hosts for one request. REFUSED in place of a weight leaves a host out.

    `one_by_one`: after the first call, `weigh` gets only the host that was just picked. `choice`: the rule
    that selects one of the best hosts. `shortlist(hosts, count)` drops hosts that are not among the `count`
    best.
    """

    scheduler_name: str
    weigh: Callable[[HostView], Ints]
    one_by_one: bool
    choice: Choice = THE_BEST
    shortlist: Callable[[HostView, int], HostView] = lambda hosts, count: hosts

    def weights(self, hosts: HostView) -> Ints:
        """Return the weights. Raise WeigherFailed, and log the traceback, if the scheduler's code fails."""
        try:
            return self.weigh(hosts)
        except ZoneschedError:
            raise
        except ANY_ERROR as error:
            log.exception("scheduler %s failed to weigh", self.scheduler_name)
            raise WeigherFailed(self.scheduler_name, "scheduler") from error


class Selection:
    """Makes one offer from hosts that have passed the filters."""

    def __init__(
        self,
        hosts: HostView,
        weights: Ints,
        steps: tuple[FunnelStep, ...],
        again: Sequence[BaseHostFilter],
        weighing: HostWeighing,
        count: int,
        scored: int,
    ) -> None:
        """`hosts`, with their `weights`, include the best survivors; `steps` are the funnel's.

        `again`: the filters that are applied again to picked hosts (`asked_again`).

        `count`: the number of picks, without bundles. `scored`: the largest count for `best`.
        """
        self._count = count
        self._weighing = weighing
        self._spec = hosts.spec
        self._again = again
        self._choice = weighing.choice
        self._ties = RequestTies(hosts.context.tie_key)
        self._wanted = wanted(hosts.spec, weighing.choice, count, scored)
        self._hosts = hosts
        self._weights = weights
        self._steps = steps
        self._complete = True
        if self._weights.max() == REFUSED:
            self._leave_out_refused()

    @classmethod
    def among(
        cls,
        survivors: Survivors,
        filters: Sequence[BaseHostFilter],
        weighing: HostWeighing,
        count: int,
        scored: int,
    ) -> Selection:
        """Weigh the survivors of the funnel."""
        hosts = survivors.hosts
        again = asked_again(filters, hosts.spec)
        if hosts.spec.policy is not Policy.AFFINITY:
            hosts = weighing.shortlist(hosts, wanted(hosts.spec, weighing.choice, count, scored))
        return cls(hosts, weighing.weights(hosts), survivors.steps, again, weighing, count, scored)

    def offer(self, weighing: Weighing, best: tuple[HostScore, ...]) -> Offer:
        """Return bundles for an affinity request, else picks and alternates.

        The offer includes how it was weighed, and the scores of the `best` hosts.
        """
        if self._spec.policy is Policy.AFFINITY:
            bundles = self._bundles()
            return Offer((), (), bundles, self._steps, (), best, weighing, self._complete)
        count = self._count
        order = self._best(count + self._spec.alternates)
        picks = self._pick(order, count)
        picked = np.zeros(len(order), dtype=np.bool_)
        picked[picks.indices] = True
        others = order[~picked][: self._spec.alternates]
        return Offer(
            self._named(order[picks.indices], picks.weights, picks.placed),
            self._named(others, self._weights[others], _NONE_PLACED),
            (),
            self._steps,
            self._runs_out(order, picks) if len(picks.indices) < count else (),
            best,
            weighing,
            self._complete,
        )

    def best(self, count: int) -> tuple[HostView, Ints]:
        """Return the `count` best hosts, best first, and their weights before anything is placed on them."""
        order = self._order[:count]
        return self._hosts.pick(self._hosts.row_numbers[order]), self._weights[order]

    def _runs_out(self, order: Ints, picks: Picks) -> tuple[FunnelStep, ...]:
        placed = np.bincount(picks.indices, minlength=len(order)).astype(np.int64)
        try:
            return reasons_of(self._hosts.pick(self._hosts.row_numbers[order], placed), self._again)
        except OutOfTime:
            return ()

    def _leave_out_refused(self) -> None:
        weighed = np.flatnonzero(self._weights != REFUSED)
        step = FunnelStep(self._weighing.scheduler_name, "not_weighed", len(self._weights), len(weighed))
        self._steps = (*self._steps, step)
        self._hosts = self._hosts.pick(self._hosts.row_numbers[weighed])
        self._weights = self._weights[weighed]

    def _pick(self, order: Ints, count: int) -> Picks:
        def weigh_many(indices: Ints, placed: Ints) -> tuple[Ints, Ints]:
            hosts = self._hosts.pick(self._hosts.row_numbers[order[indices]], placed)
            try:
                weights = self._weights_again(hosts, placed)
            except OutOfTime:
                # The picks made so far stay; no host takes a further instance.
                self._complete = False
                weights = np.full(len(hosts), REFUSED, dtype=np.int64)
            return weights, self._order_keys(order[indices], placed)

        def weigh_one(index: int, placed: int) -> tuple[int, int]:
            [weight], [tie] = weigh_many(np.array([index]), np.array([placed]))
            return int(weight), int(tie)

        if count == 1 and self._choice.subset_size == 1:
            first = order[:1]
            nothing = np.zeros(len(first), dtype=np.int64)
            return Picks(nothing, self._weights[first], nothing)
        slots = free_slots(self._hosts.pick(self._hosts.row_numbers[order]), count)
        candidates = Candidates(self._weights[order], self._order_keys(order, _NONE_PLACED), slots)
        if self._choice.subset_size > 1:
            size = self._choice.subset_size
            return pick_among_best(candidates, count, size, self._lots.choose, weigh_one)
        if self._weighing.one_by_one:
            return pick_one_by_one(candidates, count, weigh_one)
        return pick_in_blocks(candidates, count, weigh_many)

    def _weights_again(self, hosts: HostView, placed: Ints) -> Ints:
        """Return the weights of hosts with instances on them, REFUSED where a filter refuses the host."""
        passing = np.flatnonzero(self._pass_again(hosts))
        weights = np.full(len(hosts), REFUSED, dtype=np.int64)
        if len(passing):
            weights[passing] = self._weighing.weights(hosts.pick(hosts.row_numbers[passing], placed[passing]))
        return weights

    def _bundles(self) -> tuple[Pick, ...]:
        wanted = 1 + self._spec.alternates
        order = self._best(wanted) if not self._again else self._best_for_all(wanted)
        if len(order):
            options = min(self._choice.subset_size, len(order))
            drawn = self._lots.choose(0, options) if options > 1 else 0
            order = np.concatenate([order[drawn : drawn + 1], np.delete(order, drawn)])[:wanted]
        return self._named(order, self._weights[order], _NONE_PLACED)

    def _best_for_all(self, count: int) -> Ints:
        """Variant of `_best` that takes only hosts that the filters pass for every instance."""
        wanted = count + self._choice.subset_size - 1
        chosen: list[int] = []
        for index in best(self._weights, self._order_values, len(self._weights)).tolist():
            try:
                if self._takes_all(index):
                    chosen.append(index)
            except OutOfTime:
                self._complete = False
                break
            if len(chosen) == wanted:
                break
        if self._complete and len(chosen) < min(wanted, len(self._weights)):
            step = FunnelStep("affinity", "not_for_all_instances", len(self._weights), len(chosen))
            self._steps = (*self._steps, step)
        return np.array(chosen, dtype=np.int64)

    @cached_property
    def _lots(self) -> Lots:
        return Lots(self._ties, self._count)

    @cached_property
    def _order(self) -> Ints:
        """The best hosts, as many as are wanted for any purpose."""
        return best(self._weights, self._order_values, self._wanted)

    def _best(self, count: int) -> Ints:
        """Return the `count` best hosts, and the additional hosts that a random choice needs."""
        return self._order[: count + self._choice.subset_size - 1]

    def _takes_all(self, index: int) -> bool:
        placed = np.arange(1, self._spec.num_instances, dtype=np.int64)
        row = np.full(len(placed), self._hosts.row_numbers[index])
        return bool(self._pass_again(self._hosts.pick(row, placed)).all())

    def _pass_again(self, hosts: HostView) -> Bools:
        passed = np.ones(len(hosts), dtype=np.bool_)
        for host_filter in self._again:
            passed &= answers_of(host_filter, hosts, self._spec)
        return passed

    def _order_values(self, indices: Ints, placed: Ints = _NONE_PLACED) -> Hashes:
        """Return the numbers that order hosts of equal weight: tie values, or host hashes without shuffle."""
        if self._choice.shuffle:
            return self._tie_values(indices, placed)
        return self._hosts.table.host_hash[self._hosts.row_numbers[indices]]

    def _order_keys(self, indices: Ints, placed: Ints) -> Ints:
        return _first_bits(self._order_values(indices, placed))

    def _tie_values(self, indices: Ints, placed: Ints) -> Hashes:
        hashes = self._hosts.table.host_hash[self._hosts.row_numbers[indices]]
        return self._ties.values(hashes, placed)

    def _named(self, indices: Ints, weights: Ints, placed: Ints) -> tuple[Pick, ...]:
        if not len(indices):
            return ()
        table, rows = self._hosts.table, self._hosts.row_numbers[indices]
        ties = _first_bits(self._tie_values(indices, placed))
        return tuple(map(Pick, table.host_ids(rows), weights.tolist(), ties.tolist()))


def asked_again(filters: Sequence[BaseHostFilter], spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
    """Select the filters that are applied again to picked hosts. Raise FilterFailed."""
    return tuple(f for f in filters if changes_of(f, spec))


def wanted(spec: RequestSpec, choice: Choice, count: int, scored: int) -> int:
    """Return the number of best hosts that a selection needs."""
    return max(count + spec.alternates + choice.subset_size - 1, scored)


def _first_bits(values: Hashes) -> Ints:
    return (values >> np.uint64(64 - TIE_BITS)).astype(np.int64)
