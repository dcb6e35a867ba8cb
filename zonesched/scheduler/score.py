"""Scores of hosts: the weighers' raw values, checked, scaled and added in the order of the scale."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

import numpy as np

from zonesched.errors import ZoneschedError
from zonesched.model.arrays import Floats
from zonesched.model.decision_trace import ScorePart
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import Flavor, Image, RequestSpec, ScoreWeighing, WeigherScale
from zonesched.model.work_deadline import NO_DEADLINE, WorkDeadline
from zonesched.plugin import ANY_ERROR
from zonesched.scheduler.scale import BLOCK, Range, blocks, choose_scale, has_extent, scaled
from zonesched.weights.contract import BaseHostWeigher, WeigherFailed
from zonesched.weights.registry import HostWeighers

log = logging.getLogger(__name__)

R = TypeVar("R")

NOTHING_ASKED = RequestSpec("", "", 1, Flavor("", "", 0, 0, 0), Image("", ""))
"""The empty request that a zone measures its ranges with; weighers with a range ignore the request."""


@dataclass(frozen=True)
class Raw:
    """Raw values of a weigher for some hosts, all finite, and a range that contains them.

    `values`: one per host of `read_of`, which is the hosts' own view or the view of all rows of their table.
    """

    values: Floats
    range: Range
    read_of: HostView


def raw_values(name: str, weigher: BaseHostWeigher, hosts: HostView, spec: RequestSpec) -> Raw:
    """Ask a weigher about at least one host.

    Raise WeigherFailed if it raises or returns a value that is not finite.
    """
    known = hosts.cache.get(name)
    if not isinstance(known, Raw):
        read_of = hosts.read_of if weigher.vectorised else hosts
        values = weigh(name, weigher, read_of, spec)
        known = hosts.cache[name] = Raw(values, _checked_range(name, values, hosts, read_of), read_of)
    return known


def _checked_range(name: str, values: Floats, hosts: HostView, read_of: HostView) -> Range:
    return range_and_ends(name, values, hosts, read_of)[0]


def range_and_ends(
    name: str, values: Floats, hosts: HostView, read_of: HostView
) -> tuple[Range, tuple[int, int]]:
    """Return the range of raw values, and where a host has its low end and one its high end.

    `values`: one per host of `read_of`. Raise WeigherFailed if one of a host is not finite.
    """
    searched = _searchable(values)
    lowest, highest = int(searched.argmin()), int(searched.argmax())
    low, high = float(values[lowest]), float(values[highest])
    if read_of is not hosts and not (isfinite(low) and isfinite(high) and hosts.have_rows(lowest, highest)):
        rows = hosts.row_numbers
        some = values[rows]
        lowest, highest = int(rows[some.argmin()]), int(rows[some.argmax()])
        low, high = float(values[lowest]), float(values[highest])
    # NumPy returns a NaN as both the lowest and the highest value.
    if not (isfinite(low) and isfinite(high)):
        log.error("weigher %s gave no finite number for a host", name)
        raise WeigherFailed(name)
    return Range(low, high), (lowest, highest)


def _searchable(values: Floats) -> Floats:
    """Return the values in a form in which NumPy finds an extreme; of a read-only array it makes a copy."""
    alias = values.view()
    with suppress(ValueError):  # Memory that is read-only itself.
        alias.flags.writeable = True
    return alias


def weigh(name: str, weigher: BaseHostWeigher, hosts: HostView, spec: RequestSpec) -> Floats:
    """Ask a weigher for one raw value per host, which may be not finite. Raise WeigherFailed."""
    raw = _answer(name, lambda: np.asarray(weigher.weigh(hosts, spec), dtype=np.float64))
    if raw.shape != (len(hosts),):
        log.error("weigher %s gave not one number per host", name)
        raise WeigherFailed(name)
    return raw


def _weighs(name: str, weigher: BaseHostWeigher, spec: RequestSpec) -> bool:
    return _answer(name, lambda: bool(weigher.weighs(spec)))


def _answer(name: str, question: Callable[[], R]) -> R:
    try:
        return question()
    except ZoneschedError:
        raise
    except ANY_ERROR as error:
        log.exception("weigher %s failed", name)
        raise WeigherFailed(name) from error


@dataclass(frozen=True)
class Part:
    """One weigher's part of the scores of some hosts: raw values, their scale and the multiplier."""

    raw: Floats
    scale: WeigherScale
    multiplier: float | Floats

    def amounts(self, block: slice, out: Floats) -> Floats:
        """Return the scaled values of a block of the hosts, in `out`."""
        multiplier = self.multiplier
        some = multiplier[block] if isinstance(multiplier, np.ndarray) else multiplier
        return scaled(self.raw[block], self.scale, some, out)


def _parts(
    weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec
) -> tuple[HostView, list[Part]]:
    """Return the parts of a score in the scale's order, without those in which no two hosts can differ.

    The view returned with them has the parts' hosts: `hosts`, or all rows of their table.
    """
    named = [(scale, weighers.named(scale.weigher)) for scale in weighing.scales]
    read_of = hosts.read_of if all(weigher.vectorised for _, weigher in named) else hosts
    parts = []
    for scale, weigher in named:
        multiplier = weighers.multipliers(scale.weigher, scale.multiplier, read_of)
        if has_extent(scale) and is_any(multiplier):
            raw = raw_values(scale.weigher, weigher, hosts, spec)
            values = raw.values if raw.read_of is read_of else raw.values[hosts.rows]
            parts.append(Part(values, scale, multiplier))
    return read_of, parts


def is_any(multiplier: float | Floats) -> bool:
    """Tell whether the weigher makes any host better or worse."""
    return bool(multiplier.any()) if isinstance(multiplier, np.ndarray) else multiplier != 0.0


def parts_of_each_host(
    weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec
) -> list[list[ScorePart]]:
    """Return the parts of each host's score; an amount beyond float64 becomes the largest float64."""
    count = len(hosts)
    found = []
    parts = _parts(weighers, weighing, hosts, spec)[1]
    with np.errstate(over="ignore", invalid="ignore"):
        all_amounts = [part.amounts(slice(0, count), np.empty(count)) for part in parts]
    for part, amounts in zip(parts, all_amounts, strict=True):
        listed = amounts.tolist()
        # The hosts are few: as a list they are looked through faster.
        if not all(map(isfinite, listed)):
            listed = np.nan_to_num(amounts).tolist()
        each = part.multiplier
        multipliers = each.tolist() if isinstance(each, np.ndarray) else [each] * count
        names = [part.scale.weigher] * count
        columns = zip(names, part.raw.tolist(), multipliers, listed, strict=True)
        found.append(list(map(ScorePart._make, columns)))
    return found


def scores(weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec) -> Floats:
    """Return the sums of the scaled raw values. Raise WeighingUnknown, WeigherFailed."""
    read_of, parts = _parts(weighers, weighing, hosts, spec)
    total = _sums(parts, len(read_of))
    return _checked(total if read_of is hosts else total[hosts.rows], weighing)


def scores_of_raw(
    weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, raw: Mapping[str, Floats]
) -> Floats:
    """Variant of `scores` for hosts whose raw values are known, by weigher. Raise WeigherFailed."""
    parts = []
    for scale in weighing.scales:
        if has_extent(scale):
            multiplier = weighers.multipliers(scale.weigher, scale.multiplier, hosts)
            if is_any(multiplier):
                parts.append(Part(raw[scale.weigher], scale, multiplier))
    return _checked(_sums(parts, len(hosts)), weighing)


def _sums(parts: Sequence[Part], count: int) -> Floats:
    total = np.zeros(count)
    scratch = np.empty(min(count, BLOCK))
    # A value beyond float64 becomes infinite and can still be ordered; only inf - inf cannot.
    with np.errstate(over="ignore", invalid="ignore"):
        for block in blocks(count):
            sums = total[block]
            for part in parts:
                sums += part.amounts(block, scratch[: len(sums)])
    return total


def _checked(total: Floats, weighing: ScoreWeighing) -> Floats:
    if np.isnan(total.min()):
        raise WeigherFailed(" + ".join(scale.weigher for scale in weighing.scales))
    return total


def scale_of_hosts(weighers: HostWeighers, hosts: HostView, spec: RequestSpec) -> ScoreWeighing:
    """Return the scale of the configured weighers over these hosts, without those that weigh none of them."""
    scales = []
    for name, weigher in weighers.configured.items():
        if _weighs(name, weigher, spec) and _weighs_any(weighers, name, hosts):
            found = raw_values(name, weigher, hosts, spec).range if len(hosts) else Range(0.0, 0.0)
            scales.append(choose_scale(name, weighers, found))
    return ScoreWeighing(tuple(scales))


def scale_of_ranges(weighers: HostWeighers, ranges: Mapping[str, Range], spec: RequestSpec) -> ScoreWeighing:
    """Return the scale of the configured weighers over hosts of which only the ranges are known.

    A weigher with multiplier 0 stays, since an aggregate in a child zone may set another multiplier. One
    without a range has no extent (`check_unscaled`).
    """
    return ScoreWeighing(
        tuple(
            choose_scale(name, weighers, ranges.get(name, Range(0.0, 0.0)))
            for name, weigher in weighers.configured.items()
            if _weighs(name, weigher, spec)
        )
    )


def check_unscaled(
    weighers: HostWeighers, weighing: ScoreWeighing, hosts: HostView, spec: RequestSpec
) -> None:
    """Raise WeigherFailed for a weigher whose scale has no extent because it fails for these hosts.

    It would be left out of all scores, and nobody told. Hosts that a filter removes may lack what it reads.
    """
    for scale in weighing.scales:
        if len(hosts) and not has_extent(scale) and _weighs_any(weighers, scale.weigher, hosts):
            raw_values(scale.weigher, weighers.named(scale.weigher), hosts, spec)


def _weighs_any(weighers: HostWeighers, name: str, hosts: HostView) -> bool:
    return is_any(weighers.multipliers(name, weighers.factors[name], hosts))


def hosts_up(table: HostTable, deadline: WorkDeadline = NO_DEADLINE) -> HostView:
    """Return the hosts that are enabled and up."""
    rows = np.flatnonzero(table.alive & table.enabled & table.up)
    return HostView(table, rows, NOTHING_ASKED, deadline=deadline)


def observed_ranges(weighers: Mapping[str, BaseHostWeigher], hosts: HostView) -> dict[str, Range]:
    """Return the raw range of each weigher over these hosts; {} without any.

    The range of a weigher that declares both bounds is these bounds. Values that are not finite are left out,
    and a weigher that fails has no range: only requests are refused for its failure. Raise OutOfTime.
    """
    if len(hosts) == 0:
        return {}
    found = {}
    for name, weigher in weighers.items():
        if weigher.minval is not None and weigher.maxval is not None:
            found[name] = Range(weigher.minval, weigher.maxval)
        else:
            try:
                raw = weigh(name, weigher, hosts, NOTHING_ASKED)
            except WeigherFailed:
                continue
            finite = raw[np.isfinite(raw)]
            if len(finite):
                found[name] = Range(float(finite.min()), float(finite.max()))
    return found
