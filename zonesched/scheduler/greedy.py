"""Pick the best host, place one instance on it virtually, weigh that host again, repeat.

Only a picked host's weight changes, so `count` picks need the `count` best hosts only. Each host has a row
of weights, one per instance already on it; a pick takes the head of the best row. Two ways lead to the same
picks:

- `pick_one_by_one` keeps a heap of heads and asks for one weight per pick;
- `pick_in_blocks` asks for many weights at once. A weight comes up when the largest of its row up to and
  including it, its peak, is the smallest among the rows: so the picks, in order, are the weights with the
  smallest (peak, tie, instances on the host), and no loop over picks is needed.

A third, `pick_among_best`, takes one of a few best heads in place of the best.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Hashes, Ints

REFUSED = np.iinfo(np.int64).max
"""In place of a weight: with that many instances on it, the host takes no other one."""


@dataclass(frozen=True)
class Candidates:
    """Hosts by index, best first. `room`: how many instances of the request each takes, at least 1."""

    weights: Ints
    ties: Hashes
    room: Ints


@dataclass(frozen=True)
class Picks:
    """Candidate and weight of each pick, in order."""

    indices: Ints
    weights: Ints


WeighOne = Callable[[int, int], int]
"""(candidate, instances already on it, at least 1) -> weight or REFUSED."""

WeighMany = Callable[[Ints, Ints], Ints]
"""The same for many pairs at once."""


def pick_one_by_one(candidates: Candidates, count: int, weigh: WeighOne) -> Picks:
    """At most `count` picks; one call of `weigh` for each but the last."""
    first = zip(candidates.weights.tolist(), candidates.ties.tolist(), strict=True)
    heads = [(weight, tie, index, 0) for index, (weight, tie) in enumerate(first)][:count]
    heapq.heapify(heads)
    indices: list[int] = []
    weights: list[int] = []
    while heads and len(indices) < count:
        weight, tie, index, placed = heads[0]
        indices.append(index)
        weights.append(weight)
        following = REFUSED
        if len(indices) < count and placed + 1 < candidates.room[index]:
            following = weigh(index, placed + 1)
        if following == REFUSED:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following, tie, index, placed + 1))
    return Picks(np.array(indices, dtype=np.int64), np.array(weights, dtype=np.int64))


def pick_among_best(
    candidates: Candidates, count: int, size: int, choose: Callable[[int, int], int], weigh: WeighOne
) -> Picks:
    """As `pick_one_by_one`, but each pick is one of the `size` best heads.

    `choose` gets the number of the pick and how many heads there are, and says which: 0 is the best. Of
    candidates, the `count + size - 1` best matter.
    """
    first = zip(candidates.weights.tolist(), candidates.ties.tolist(), strict=True)
    heads = sorted((weight, tie, index, 0) for index, (weight, tie) in enumerate(first))
    indices: list[int] = []
    weights: list[int] = []
    while heads and len(indices) < count:
        weight, tie, index, placed = heads.pop(choose(len(indices), min(size, len(heads))))
        indices.append(index)
        weights.append(weight)
        if len(indices) < count and placed + 1 < candidates.room[index]:
            following = weigh(index, placed + 1)
            if following != REFUSED:
                bisect.insort(heads, (following, tie, index, placed + 1))
    return Picks(np.array(indices, dtype=np.int64), np.array(weights, dtype=np.int64))


def pick_in_blocks(candidates: Candidates, count: int, weigh: WeighMany) -> Picks:
    """At most `count` picks; asks for O(count * log count) weights, in blocks of about `count`."""
    rows = _Rows(candidates, count)
    while rows.open_rows(count):
        rows.extend(weigh)
    return rows.picks(count)


class _Rows:
    """The rows of weights as far as they are known, and which of them may still matter."""

    def __init__(self, candidates: Candidates, count: int) -> None:
        first = candidates.weights[:count]
        self._ties = candidates.ties[:count]
        self._room = candidates.room[:count]
        self._indices = np.arange(len(first), dtype=np.int64)
        self._placed = np.zeros(len(first), dtype=np.int64)
        self._weights = first
        self._peaks = first
        self._last_peak = first.copy()
        self._open = self._room > 1
        self._known = 1

    def open_rows(self, count: int) -> bool:
        """Close the rows whose unknown weights come after the `count` first picks; whether any is left."""
        if len(self._peaks) >= count:
            limit = np.partition(self._peaks, count - 1)[count - 1]
            tied = np.sort(self._ties[self._indices[self._peaks == limit]])
            last_tie = tied[count - 1 - np.count_nonzero(self._peaks < limit)]
            at_limit = (self._last_peak == limit) & (self._ties < last_tie)
            self._open &= (self._last_peak < limit) | at_limit
        return bool(self._open.any())

    def extend(self, weigh: WeighMany) -> None:
        """Learn as many further weights of each open row as are known of it, as far as it has room."""
        still_open = np.flatnonzero(self._open)
        levels = self._known + np.arange(self._known, dtype=np.int64)
        block = np.full((len(still_open), len(levels)), REFUSED, dtype=np.int64)
        row, column = np.nonzero(levels < self._room[still_open, np.newaxis])
        block[row, column] = weigh(still_open[row], levels[column])
        peaks = np.maximum.accumulate(block, axis=1)
        np.maximum(peaks, self._last_peak[still_open, np.newaxis], out=peaks)
        self._last_peak[still_open] = peaks[:, -1]
        self._known *= 2
        self._open[still_open] = (peaks[:, -1] != REFUSED) & (self._room[still_open] > self._known)
        row, column = np.nonzero(peaks != REFUSED)
        self._indices = np.concatenate([self._indices, still_open[row]])
        self._placed = np.concatenate([self._placed, levels[column]])
        self._weights = np.concatenate([self._weights, block[row, column]])
        self._peaks = np.concatenate([self._peaks, peaks[row, column]])

    def picks(self, count: int) -> Picks:
        """The `count` first picks, in order."""
        near = np.arange(len(self._peaks))
        if len(near) > count:
            limit = np.partition(self._peaks, count - 1)[count - 1]
            near = np.flatnonzero(self._peaks <= limit)
        keys = (self._placed[near], self._ties[self._indices[near]], self._peaks[near])
        chosen = near[np.lexsort(keys)[:count]]
        return Picks(self._indices[chosen], self._weights[chosen])
