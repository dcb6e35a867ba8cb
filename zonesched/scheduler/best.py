"""The few best of many hosts, ordered by weight, then by the tie-breaking hash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from zonesched.model.arrays import Floats, Hashes, Ints

_NO_INDICES: Ints = np.zeros(0, dtype=np.int64)


def best(weights: Ints, ties: Callable[[Ints], Hashes], count: int) -> Ints:
    """Return the indices of the `count` best, best first. Call `ties` only where the order depends on it."""
    if count < len(weights):
        below: Ints = _NO_INDICES
        # Many hosts are alike, so mostly there are enough of the lowest weight.
        limit = weights.min()
        tied: Ints = (weights == limit).nonzero()[0]
        if len(tied) < count:
            limit = smallest(weights, count)
            below = (weights < limit).nonzero()[0]
            tied = (weights == limit).nonzero()[0]
        missing = count - len(below)
        if missing < len(tied):
            values = ties(tied)
            near = np.flatnonzero(values <= smallest(values, missing))
            first = near[np.argsort(values[near], kind="stable")][:missing]
            tied = tied[first]
            if not len(below):
                return tied
        chosen = np.concatenate([below, tied])
    else:
        chosen = np.arange(len(weights), dtype=np.int64)
    if len(chosen) < 2:
        return chosen
    return chosen[np.lexsort((ties(chosen), weights[chosen]))]


def largest(values: Floats, count: int) -> float:
    """Return the `count`-th largest of at least `count` values."""
    return float(-smallest(-values, count)) if count > 1 else float(values.max())


def smallest(values: npt.NDArray[Any], count: int) -> Any:
    """Return the `count`-th smallest; first reduce the values to few, since partitioning all is slow."""
    if count == 1:
        return values.min()
    # Short blocks would cost more than they save.
    blocks = max(8 * count, 1_024)
    near = values
    if len(values) >= 8 * blocks:
        length = len(values) // blocks
        minima = values[: length * blocks].reshape(length, blocks).min(axis=0)
        # Many hosts are alike, and partitioning equal values is slow; so is copying all that equal the limit.
        limit = np.sort(minima)[count - 1]
        below = values < limit
        if np.count_nonzero(below) < count:
            return limit
        near = values[below]
    # Many hosts are alike, and partitioning equal values is slow too.
    lowest = near.min()
    if np.count_nonzero(near == lowest) >= count:
        return lowest
    return np.partition(near, count - 1)[count - 1]
