"""Conversion of weighers' raw values into integer weights that can be merged across zones.

The scale (per weigher: low, high, multiplier) is chosen once per request, and every zone weighs with it. Only
this module converts scores into weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Floats, Ints
from zonesched.model.build_plan import MAX_WEIGHT
from zonesched.model.request_spec import WeigherScale
from zonesched.weights.registry import HostWeighers

WEIGHT_OF_SCORE_0 = 4e15
WEIGHT_PER_SCORE = 1e9

RESOLUTION = 1.0 / WEIGHT_PER_SCORE
HIGHEST_SCORE = WEIGHT_OF_SCORE_0 / WEIGHT_PER_SCORE
LOWEST_SCORE = (WEIGHT_OF_SCORE_0 - MAX_WEIGHT) / WEIGHT_PER_SCORE
"""Scores beyond HIGHEST_SCORE or LOWEST_SCORE have the weights of these bounds."""

CLASSES = 8
"""Steps of a number's binary fraction, which is from 0.5 to 1: so there are half as many in each doubling."""

LARGEST_IN_CLASS = 1e300
"""Beyond it a bound stays as it is: the next class might be infinite."""

BLOCK = 16_384
"""Number of elements of a column that are computed together: 128 KiB of each column."""


@dataclass(frozen=True)
class Range:
    """Lowest and highest raw value of a weigher over some hosts; both finite."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError("a range needs two finite numbers, the lower one first")


def merge_ranges(*ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Return by weigher the range over the hosts of all given ranges."""
    merged: dict[str, Range] = {}
    for by_weigher in ranges:
        for name, found in by_weigher.items():
            known = merged.get(name, found)
            merged[name] = Range(min(known.low, found.low), max(known.high, found.high))
    return merged


def in_classes(found: Range) -> Range:
    """Widen a range to classes, so that it tells no exact value: 4 in each doubling."""
    # Not -x: a low of 0 would be -0.0.
    return Range(0.0 - _class(-found.low), _class(found.high))


def _class(value: float) -> float:
    """Return the lowest class from `value` on."""
    if abs(value) > LARGEST_IN_CLASS:
        return value
    part, exponent = math.frexp(value)
    return math.ldexp(math.ceil(part * CLASSES) / CLASSES, exponent)


def choose_scale(name: str, weighers: HostWeighers, observed: Range) -> WeigherScale:
    """Return the scale of one weigher: its declared bounds, else the observed range."""
    weigher = weighers.named(name)
    return WeigherScale(
        weigher=name,
        low=observed.low if weigher.minval is None else weigher.minval,
        high=observed.high if weigher.maxval is None else weigher.maxval,
        multiplier=weighers.factors[name],
    )


def has_extent(scale: WeigherScale) -> bool:
    """Tell whether hosts can differ by this weigher; without an extent every host's score is 0."""
    return scale.high > scale.low


def scaled(raw: Floats, scale: WeigherScale, multiplier: float | Floats, out: Floats) -> Floats:
    """Map raw values linearly from low (0) and high (1) of a scale with an extent, times the multiplier.

    `multiplier`: one number, or one per host. Values outside are extrapolated, so that the order is kept.
    `out` receives the result. Steps that change no number, such as subtracting 0, are skipped to save time.
    """
    extent = scale.high - scale.low
    if scale.low:
        np.subtract(raw, scale.low, out=out)
        np.divide(out, extent, out=out)
    else:
        np.divide(raw, extent, out=out)
    if isinstance(multiplier, np.ndarray) or multiplier != 1.0:
        np.multiply(out, multiplier, out=out)
    return out


def to_weight(score: Floats) -> Ints:
    """Return integer weights, lower is better: 4*10**15 - round(10**9 * score), within 0..2**53-1.

    >>> to_weight(np.array([0.0, 1.0, 2.5e-9, 1e300])).tolist()
    [4000000000000000, 3999999000000000, 3999999999999998, 0]
    """
    weights = np.empty(len(score), dtype=np.int64)
    for block in blocks(len(score)):
        # A product beyond float64 is infinite; the limits below treat it as any large one.
        with np.errstate(over="ignore"):
            exact: Floats = WEIGHT_PER_SCORE * score[block]
        np.rint(exact, out=exact)
        np.subtract(WEIGHT_OF_SCORE_0, exact, out=exact)
        np.maximum(exact, 0.0, out=exact)
        np.minimum(exact, float(MAX_WEIGHT), out=exact)
        weights[block] = exact
    return weights


def blocks(count: int) -> Iterator[slice]:
    """Return slices of `count` elements, so short that those of a few columns stay in a core's cache."""
    return (slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK))
