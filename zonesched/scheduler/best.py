"""The few best of many hosts, in order: by weight, then by the tie-breaking hash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zonesched.model.arrays import Hashes, Ints


def best(weights: Ints, ties: Callable[[Ints], Hashes], count: int) -> Ints:
    """Indices of the `count` best, best first. `ties` is asked only where the order may depend on it."""
    if count < len(weights):
        limit = _smallest(weights, count)
        below = np.flatnonzero(weights < limit)
        tied = np.flatnonzero(weights == limit)
        missing = count - len(below)
        if missing < len(tied):
            tied = tied[np.argpartition(ties(tied), missing - 1)[:missing]]
        chosen = np.concatenate([below, tied])
    else:
        chosen = np.arange(len(weights), dtype=np.int64)
    return chosen[np.lexsort((ties(chosen), weights[chosen]))]


def _smallest(weights: Ints, count: int) -> np.int64:
    """The `count`-th smallest; few elements are sorted out first, since partitioning all is slow."""
    blocks = 8 * count
    near = weights
    if len(weights) >= 8 * blocks:
        length = len(weights) // blocks
        minima = weights[: length * blocks].reshape(length, blocks).min(axis=0)
        near = weights[weights <= np.partition(minima, count - 1)[count - 1]]
    return np.int64(np.partition(near, count - 1)[count - 1])
