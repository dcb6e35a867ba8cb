"""Greedy sequences of several zones made into one.

Each host is in one zone only, so taking the best head each time is the greedy choice over all hosts. The
order inside a sequence stays: with stacking a sequence gets better as it goes, and sorting would break it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

from zonesched.model.build_plan import MAX_WEIGHT


class Weighted(Protocol):
    """An entry or a bundle."""

    @property
    def weight(self) -> int:
        """Lower is better."""


W = TypeVar("W", bound=Weighted)


def merge_heads(sequences: Sequence[Sequence[W]], count: int) -> tuple[list[W], list[list[W]]]:
    """(the `count` first picks, what is left of each sequence); equal heads in order of the sequences."""
    heads = [(sequence[0].weight, number) for number, sequence in enumerate(sequences) if sequence]
    heapq.heapify(heads)
    taken = [0] * len(sequences)
    picked: list[W] = []
    while heads and len(picked) < count:
        number = heads[0][1]
        sequence = sequences[number]
        picked.append(sequence[taken[number]])
        taken[number] += 1
        if taken[number] < len(sequence):
            heapq.heapreplace(heads, (sequence[taken[number]].weight, number))
        else:
            heapq.heappop(heads)
    return picked, [list(sequence[used:]) for sequence, used in zip(sequences, taken, strict=True)]


def adjust(weight: int, offset: float, scale: float) -> int:
    """A child's weight as its parent sees it: offset + scale * weight, rounded, kept within 0..2**53-1.

    Raises ValueError unless offset is finite and scale is finite and above 0.
    """
    if not (math.isfinite(offset) and math.isfinite(scale) and scale > 0):
        raise ValueError("a child's weights need a finite offset and a finite scale above 0")
    adjusted = offset + scale * weight
    if adjusted >= MAX_WEIGHT:
        return MAX_WEIGHT
    return max(0, round(adjusted))
