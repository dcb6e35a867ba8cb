"""Which of the best hosts is taken: the best, or one of the few best by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Hashes
from zonesched.model.tie_break import draw, text_hash


@dataclass(frozen=True)
class Choice:
    """`subset_size`: each instance goes to one of that many best hosts; 1 means to the best.

    `shuffle`: hosts of equal weight come in another order for each request; else in the same for all.
    """

    subset_size: int = 1
    shuffle: bool = True


THE_BEST = Choice()


class Lots:
    """Pseudo-random choices for one request: the same in every process, others for another request."""

    def __init__(self, request_id: str, count: int) -> None:
        """`count`: choices that will be made at most."""
        hashes: Hashes = np.full(count, text_hash(request_id), dtype=np.uint64)
        self._lots = draw(hashes, np.arange(count, dtype=np.int64)).tolist()

    def choose(self, number: int, options: int) -> int:
        """The `number`-th choice: one of 0 .. `options` - 1."""
        return int(self._lots[number] % options)
