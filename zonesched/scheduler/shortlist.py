"""Shortlist of the hosts that can be among the best, without the exact score of every host.

Each score is estimated with one factor per weigher, in a sum with a bounded error. A host whose estimate is
below the last of the best by more than twice the error plus twice the resolution of a weight cannot be among
them. The remaining hosts are weighed exactly, so the choice is the same to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Floats
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec, ScoreWeighing
from zonesched.scheduler.best import largest
from zonesched.scheduler.scale import BLOCK, HIGHEST_SCORE, LOWEST_SCORE, RESOLUTION, blocks, has_extent
from zonesched.scheduler.score import Raw, is_any, raw_values
from zonesched.weights.registry import HostWeighers

_EPSILON = float(np.finfo(np.float64).eps)
_WORTH_IT = 8
"""Minimum ratio of all hosts to wanted hosts at which estimates save time."""


@dataclass(frozen=True)
class _Term:
    """One weigher's term of an estimate: value times factor, minus `constant`, which is equal for all hosts.

    `bound`: upper bound of the product's absolute value. `values`: the values of `raw`, or these minus the
    low end of the scale.
    """

    weigher: str
    raw: Raw
    values: Floats
    factor: float | Floats
    constant: float
    bound: float


def shortlist(
    weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec, count: int
) -> HostView:
    """Return fewer hosts that include the `count` best and all hosts that tie with the last of these.

    Return `hosts` if few of them can be left out. Raise WeighingUnknown, WeigherFailed.
    """
    everywhere = hosts.read_of
    named = [weighers.named(scale.weigher) for scale in weighing.scales]
    if not everywhere.is_whole or len(hosts) < _WORTH_IT * count or not all(w.vectorised for w in named):
        return hosts
    terms = _terms(weighers, weighing, hosts, spec)
    error = (2 * len(terms) + 8) * _EPSILON * sum(term.bound for term in terms)
    if not math.isfinite(error):
        return hosts
    estimates = _estimates(terms, hosts)
    last = largest(estimates, count)
    score = last - sum(term.constant for term in terms)
    # Beyond these scores all weights are equal, even if the scores differ.
    if not LOWEST_SCORE + error + RESOLUTION < score < HIGHEST_SCORE - error:
        return hosts
    near = np.flatnonzero(estimates >= last - 2 * error - 2 * RESOLUTION)
    if _WORTH_IT * len(near) >= len(hosts):
        return hosts
    listed = everywhere.pick(near)
    for term in terms:
        listed.cache[term.weigher] = Raw(term.raw.values[near], term.raw.range, listed)
    return listed


def _terms(
    weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec
) -> Sequence[_Term]:
    terms = []
    for scale in weighing.scales:
        multiplier = weighers.multipliers(scale.weigher, scale.multiplier, hosts.read_of)
        if has_extent(scale) and is_any(multiplier):
            raw = raw_values(scale.weigher, weighers.named(scale.weigher), hosts, spec)
            reach = max(-raw.range.low, raw.range.high, 0.0) + abs(scale.low)
            if isinstance(multiplier, float):
                factor = multiplier / (scale.high - scale.low)
                bound = abs(factor) * reach
                terms.append(_Term(scale.weigher, raw, raw.values, factor, factor * scale.low, bound))
            else:
                with np.errstate(over="ignore"):  # Then no estimate is made: its error has no bound.
                    factors = multiplier / (scale.high - scale.low)
                bound = float(np.abs(factors).max()) * reach
                less_low = raw.values - scale.low if scale.low else raw.values
                terms.append(_Term(scale.weigher, raw, less_low, factors, 0.0, bound))
    return terms


def _estimates(terms: Sequence[_Term], hosts: HostView) -> Floats:
    """Return an estimate per row of the table, -inf for rows that are not among the hosts."""
    count = len(hosts.read_of)
    estimates = np.empty(count) if terms else np.zeros(count)
    scratch = np.empty(min(BLOCK, count))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in blocks(count):
            sums = estimates[block]
            out = sums
            for term in terms:
                factor = term.factor
                some = factor[block] if isinstance(factor, np.ndarray) else factor
                np.multiply(term.values[block], some, out=out)
                if out is not sums:
                    sums += out
                out = scratch[: len(sums)]
    hosts.leave_out(estimates, -np.inf)
    return estimates
