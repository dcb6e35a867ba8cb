"""Scores of hosts: raw values of weighers, checked, brought to scale and added in the scale's order."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from zonesched.errors import ZoneschedError
from zonesched.model.account import ScorePart
from zonesched.model.arrays import Floats
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import Flavor, Image, RequestSpec, ScoreWeighing
from zonesched.scheduler.scale import Range, choose_scale, has_extent, range_of, scaled
from zonesched.weights.contract import BaseHostWeigher, WeigherFailed
from zonesched.weights.registry import HostWeighers

log = logging.getLogger(__name__)

NOTHING_ASKED = RequestSpec("", "", 1, Flavor("", "", 0, 0, 0), Image("", ""))
"""The request that a zone's ranges are measured with: their weighers do not look at it."""


def raw_values(name: str, weigher: BaseHostWeigher, hosts: HostView, spec: RequestSpec) -> Floats:
    """What a weigher says of each host; WeigherFailed if it raises or says what is no finite number."""
    return hosts.keep(f"raw {name}", lambda: _finite_values(name, weigher, hosts, spec))


def _finite_values(name: str, weigher: BaseHostWeigher, hosts: HostView, spec: RequestSpec) -> Floats:
    raw = _asked(name, weigher, hosts, spec)
    if not np.isfinite(raw).all():
        log.error("weigher %s gave no finite number for a host", name)
        raise WeigherFailed(name)
    return raw


def _asked(name: str, weigher: BaseHostWeigher, hosts: HostView, spec: RequestSpec) -> Floats:
    def read(view: HostView) -> Floats:
        return np.asarray(weigher.weigh(view, spec), dtype=np.float64)

    try:
        raw = hosts.compute(read) if weigher.vectorised else read(hosts)
    except ZoneschedError:
        raise
    except Exception as error:
        log.exception("weigher %s failed", name)
        raise WeigherFailed(name) from error
    if raw.shape != (len(hosts),):
        log.error("weigher %s gave not one number per host", name)
        raise WeigherFailed(name)
    return raw


@dataclass(frozen=True)
class Part:
    """One weigher's part of the scores of some hosts: raw values, and what they come to by the scale."""

    weigher: str
    raw: Floats
    multiplier: float | Floats
    amounts: Floats


def weighed(
    weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec
) -> Iterator[Part]:
    """The parts of a score, in the scale's order, without those by which no two hosts can differ."""
    for scale in weighing.scales:
        weigher = weighers.named(scale.weigher)
        multiplier = weighers.multipliers(scale.weigher, scale.multiplier, hosts)
        if has_extent(scale) and np.any(multiplier):
            raw = raw_values(scale.weigher, weigher, hosts, spec)
            yield Part(scale.weigher, raw, multiplier, scaled(raw, scale, multiplier))


def part_of_each_host(part: Part, count: int) -> list[ScorePart]:
    """A part, host by host; an amount beyond float64 is told as the largest there is."""
    multipliers = np.broadcast_to(part.multiplier, count).tolist()
    amounts = np.nan_to_num(part.amounts).tolist()
    columns = zip(part.raw.tolist(), multipliers, amounts, strict=True)
    return [ScorePart(part.weigher, *values) for values in columns]


def scores(weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec) -> Floats:
    """The sum of the scaled raw values. Raises WeighingUnknown, WeigherFailed."""
    total = np.zeros(len(hosts))
    # What leaves float64 becomes infinite and still has a place in the order; only inf - inf has none.
    with np.errstate(over="ignore", invalid="ignore"):
        for part in weighed(weighers, weighing, hosts, spec):
            total += part.amounts
    if np.isnan(total).any():
        raise WeigherFailed(" + ".join(scale.weigher for scale in weighing.scales))
    return total


def scale_of_hosts(weighers: HostWeighers, hosts: HostView, spec: RequestSpec) -> ScoreWeighing:
    """The scale that the configured weighers have over these hosts, without those that weigh none of them."""
    scales = []
    for name, weigher in weighers.configured.items():
        if weigher.weighs(spec) and np.any(weighers.multipliers(name, weigher.weight_multiplier(), hosts)):
            raw = raw_values(name, weigher, hosts, spec)
            scales.append(choose_scale(name, weigher, range_of(raw) if len(raw) else Range(0.0, 0.0)))
    return ScoreWeighing(tuple(scales))


def scale_of_ranges(weighers: HostWeighers, ranges: Mapping[str, Range], spec: RequestSpec) -> ScoreWeighing:
    """The scale that the configured weighers have over hosts of which only the ranges are known.

    A multiplier of 0 is no reason to leave a weigher out: an aggregate below may have another one.
    """
    return ScoreWeighing(
        tuple(
            choose_scale(name, weigher, ranges.get(name, Range(0.0, 0.0)))
            for name, weigher in weighers.configured.items()
            if weigher.weighs(spec)
        )
    )


def observed_ranges(weighers: Mapping[str, BaseHostWeigher], table: HostTable) -> dict[str, Range]:
    """The raw range of each weigher over hosts that are enabled and up.

    Without such a host none has one. A weigher that declares both bounds has those. A host of which a weigher
    says no finite number counts for nothing here, and a weigher that fails has no range: only requests are
    refused for that.
    """
    rows = np.flatnonzero(table.alive & table.enabled & table.up)
    if len(rows) == 0:
        return {}
    hosts = HostView(table, rows, NOTHING_ASKED)
    found = {}
    for name, weigher in weighers.items():
        if weigher.minval is not None and weigher.maxval is not None:
            found[name] = Range(weigher.minval, weigher.maxval)
        else:
            try:
                raw = _asked(name, weigher, hosts, NOTHING_ASKED)
            except WeigherFailed:
                continue
            finite = raw[np.isfinite(raw)]
            if len(finite):
                found[name] = range_of(finite)
    return found
