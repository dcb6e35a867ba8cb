"""The few best of many hosts, in order: by weight, then by the tie-breaking hash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zonesched.model.arrays import Hashes, Ints


def best(weights: Ints, ties: Callable[[Ints], Hashes], count: int) -> Ints:
    """Indices of the `count` best, best first. `ties` is asked only where the order may depend on it."""
    if count < len(weights):
        limit = np.partition(weights, count - 1)[count - 1]
        below = np.flatnonzero(weights < limit)
        tied = np.flatnonzero(weights == limit)
        missing = count - len(below)
        if missing < len(tied):
            tied = tied[np.argpartition(ties(tied), missing - 1)[:missing]]
        chosen = np.concatenate([below, tied])
    else:
        chosen = np.arange(len(weights), dtype=np.int64)
    return chosen[np.lexsort((ties(chosen), weights[chosen]))]
