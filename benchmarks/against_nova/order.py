"""Comparison of the orders in which two sides rank the same hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

RESOLUTION = 2e-9
"""Scores nearer than this are one score: a weight of ours is 10**9 times the score as a whole number."""


@dataclass(frozen=True)
class Comparison:
    """`same_order`: the same hosts, and in no place a lower score before a higher one.

    `tied_pairs`: neighbours in their order whose scores are one, so that either may come first.
    """

    same_order: bool
    tied_pairs: int


def compare(theirs: Sequence[tuple[str, float]], ours: Sequence[str]) -> Comparison:
    """`theirs`: host and score, the best first; `ours`: hosts, the best first."""
    scores = dict(theirs)
    same_hosts = len(ours) == len(theirs) == len(scores) and set(ours) == scores.keys()
    in_order = same_hosts and all(scores[a] >= scores[b] - RESOLUTION for a, b in pairwise(ours))
    tied = sum(abs(a - b) <= RESOLUTION for (_, a), (_, b) in pairwise(theirs))
    return Comparison(in_order, tied)
