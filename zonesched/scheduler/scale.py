"""From raw values of weighers to integer weights that can be merged across zones.

The scale (per weigher: low, high, multiplier) is chosen once per request, and every zone weighs with it. This
is the only place where a score becomes a weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Floats, Ints
from zonesched.model.build_plan import MAX_WEIGHT
from zonesched.model.request_spec import WeigherScale
from zonesched.weights.contract import BaseHostWeigher

WEIGHT_OF_SCORE_0 = 4e15
WEIGHT_PER_SCORE = 1e9


@dataclass(frozen=True)
class Range:
    """Lowest and highest raw value of a weigher over some hosts; both finite."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError("a range needs two finite numbers, the lower one first")


def merge_ranges(*ranges: Mapping[str, Range]) -> dict[str, Range]:
    """By weigher, the range over all the hosts that the given ranges are over."""
    merged: dict[str, Range] = {}
    for by_weigher in ranges:
        for name, found in by_weigher.items():
            known = merged.get(name, found)
            merged[name] = Range(min(known.low, found.low), max(known.high, found.high))
    return merged


def range_of(raw: Floats) -> Range:
    """The range of at least one finite value."""
    return Range(float(raw.min()), float(raw.max()))


def choose_scale(name: str, weigher: BaseHostWeigher, observed: Range) -> WeigherScale:
    """The scale of one weigher: its declared bounds, else what was observed."""
    return WeigherScale(
        weigher=name,
        low=observed.low if weigher.minval is None else weigher.minval,
        high=observed.high if weigher.maxval is None else weigher.maxval,
        multiplier=weigher.weight_multiplier(),
    )


def has_extent(scale: WeigherScale) -> bool:
    """Whether hosts can differ by this weigher; without an extent every host's score is 0."""
    return scale.high > scale.low


def scaled(raw: Floats, scale: WeigherScale, multiplier: float | Floats) -> Floats:
    """Multiplier times where each raw value lies between low (0) and high (1) of a scale with an extent.

    `multiplier`: one number, or one per host. Values outside extrapolate, so that order is kept.
    """
    # Step by step in one array: each further one costs as much as the arithmetic.
    score: Floats = raw - scale.low
    score /= scale.high - scale.low
    score *= multiplier
    return score


def to_weight(score: Floats) -> Ints:
    """Integer weights, lower is better: 4*10**15 - round(10**9 * score), kept within 0..2**53-1.

    >>> to_weight(np.array([0.0, 1.0, 2.5e-9, 1e300])).tolist()
    [4000000000000000, 3999999000000000, 3999999999999998, 0]
    """
    # A product beyond float64 is infinite, which the limits below turn into a weight as they do a large one.
    with np.errstate(over="ignore"):
        weights: Floats = WEIGHT_PER_SCORE * score
    np.rint(weights, out=weights)
    np.subtract(WEIGHT_OF_SCORE_0, weights, out=weights)
    np.clip(weights, 0.0, float(MAX_WEIGHT), out=weights)
    return weights.astype(np.int64)
