"""The rule that selects one of the best hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zonesched.model.text_hash import text_hash
from zonesched.seal.tie_keys import RequestTies

_LOTS = np.uint64(text_hash("zonesched/lots"))


@dataclass(frozen=True)
class Choice:
    """The options `host_subset_size` and `shuffle_best_same_weighed_hosts`.

    `subset_size`: each instance goes to one of that many best hosts; 1 means the best host.

    `shuffle`: local hosts of equal weight are taken in the order of their tie keys, which differs for each
    request. Otherwise they are taken in one fixed order; the tie keys still decide between zones.
    """

    subset_size: int = 1
    shuffle: bool = True


THE_BEST = Choice()


class Lots:
    """Pseudo-random choices that depend on the request alone, so they are the same in every process."""

    def __init__(self, ties: RequestTies, count: int) -> None:
        """`count`: the maximum number of choices."""
        numbers = np.arange(count, dtype=np.int64)
        self._lots = ties.values(np.full(count, _LOTS), numbers).tolist()

    def choose(self, number: int, options: int) -> int:
        """Return the `number`-th choice: one of 0 .. `options` - 1."""
        return int(self._lots[number] % options)
