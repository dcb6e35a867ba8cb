"""Merge the greedy sequences of several zones into one.

Each host is in one zone only, so taking the best head each time is the greedy choice over all hosts. The
order inside a sequence is kept: with stacking, later entries are better, and sorting would move them first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Sequence
from typing import Protocol, TypeVar

from zonesched.model.build_plan import MAX_WEIGHT


class Ordered(Protocol):
    """An entry or a bundle: the lowest weight first, among equal weights the lowest tie key."""

    @property
    def weight(self) -> int:
        """From 0 to 2**53-1."""

    @property
    def tie(self) -> int:
        """From 0 to 2**20-1."""


T = TypeVar("T", bound=Ordered)


def merge_heads(
    sequences: Sequence[Sequence[T]], count: int, unread: Container[int] = ()
) -> tuple[list[T], list[list[T]]]:
    """Return the first `count` picks and the rest of each sequence.

    Among heads with equal weight and tie key, the head of the first sequence is taken. `unread`: the numbers
    of sequences that go on after what is here. The picks end where one of these is used up, since what comes
    next in it may be better than all other heads.
    """
    if any(not sequence and number in unread for number, sequence in enumerate(sequences)):
        return [], [list(sequence) for sequence in sequences]
    heads = [(s[0].weight, s[0].tie, number) for number, s in enumerate(sequences) if s]
    heapq.heapify(heads)
    taken = [0] * len(sequences)
    picked: list[T] = []
    while heads and len(picked) < count:
        number = heads[0][2]
        sequence = sequences[number]
        picked.append(sequence[taken[number]])
        taken[number] += 1
        if taken[number] < len(sequence):
            head = sequence[taken[number]]
            heapq.heapreplace(heads, (head.weight, head.tie, number))
        elif number in unread:
            break
        else:
            heapq.heappop(heads)
    return picked, [list(sequence[used:]) for sequence, used in zip(sequences, taken, strict=True)]


def adjust(weight: int, offset: float, scale: float) -> int:
    """Return a child's weight as its parent weighs it: offset + scale * weight, rounded, within 0..2**53-1.

    Raises ValueError unless offset is finite and scale is finite and above 0.
    """
    if not (math.isfinite(offset) and math.isfinite(scale) and scale > 0):
        raise ValueError("a child's weights need a finite offset and a finite scale above 0")
    adjusted = offset + scale * weight
    if adjusted >= MAX_WEIGHT:
        return MAX_WEIGHT
    return max(0, round(adjusted))
