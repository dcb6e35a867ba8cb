"""Pick the best host, place one instance on it virtually, weigh that host again, repeat.

The best host is the one with the lowest (weight, tie key); among equal hosts, the first candidate. Only a
picked host changes, so `count` picks need only the `count` best hosts. Each host has a row of (weight, tie
key) pairs, one per instance already on it; a pick takes the head of the best row. Two functions return the
same picks:

- `pick_one_by_one` keeps a heap of heads and asks for one pair per pick;
- `pick_in_blocks` asks for many pairs at once. A pair comes up when the largest pair of its row up to and
  including it, its peak, is the smallest among the rows: so the picks, in order, are the pairs with the
  smallest (peak, row, instances on the host), and no loop over picks is needed.

A third function, `pick_among_best`, takes one of the few best heads instead of the best.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Ints
from zonesched.model.build_plan import MAX_TIE, TIE_BITS

REFUSED = np.iinfo(np.int64).max
"""Stand-in for a weight: with that many instances on it, the host takes no further instance."""

_ROW_BITS = 32


@dataclass(frozen=True)
class Candidates:
    """Hosts by index, best first, with their weights and tie keys before anything is placed on them.

    `free_slots`: number of instances of the request that each host takes, at least 1.
    """

    weights: Ints
    ties: Ints
    free_slots: Ints


@dataclass(frozen=True)
class Picks:
    """Candidate and weight of each pick, in order. `placed`: instances on the host before the pick."""

    indices: Ints
    weights: Ints
    placed: Ints


WeighOne = Callable[[int, int], tuple[int, int]]
"""(candidate, instances already on it, at least 1) -> (weight or REFUSED, tie key)."""

WeighMany = Callable[[Ints, Ints], tuple[Ints, Ints]]
"""Variant of WeighOne for many pairs at once."""

_Head = tuple[int, int, int, int]
"""(weight, tie key, candidate, instances already on it)"""


def pick_one_by_one(candidates: Candidates, count: int, weigh: WeighOne) -> Picks:
    """Return at most `count` picks; call `weigh` once for each pick except the last."""
    heads = _first_heads(candidates)[:count]
    heapq.heapify(heads)
    picked: list[_Head] = []
    while heads and len(picked) < count:
        _, _, index, placed = heads[0]
        picked.append(heads[0])
        following = (REFUSED, 0)
        if len(picked) < count and placed + 1 < candidates.free_slots[index]:
            following = weigh(index, placed + 1)
        if following[0] == REFUSED:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (*following, index, placed + 1))
    return _picks(picked)


def pick_among_best(
    candidates: Candidates, count: int, size: int, choose: Callable[[int, int], int], weigh: WeighOne
) -> Picks:
    """Return picks like `pick_one_by_one`, but take each from the `size` best heads.

    `choose` gets the number of the pick and the number of heads, and returns the index of a head; index 0 is
    the best. Only the `count + size - 1` best candidates matter.
    """
    heads = sorted(_first_heads(candidates))
    picked: list[_Head] = []
    while heads and len(picked) < count:
        head = heads.pop(choose(len(picked), min(size, len(heads))))
        _, _, index, placed = head
        picked.append(head)
        if len(picked) < count and placed + 1 < candidates.free_slots[index]:
            following = weigh(index, placed + 1)
            if following[0] != REFUSED:
                bisect.insort(heads, (*following, index, placed + 1))
    return _picks(picked)


def pick_in_blocks(candidates: Candidates, count: int, weigh: WeighMany) -> Picks:
    """Return at most `count` picks; ask for O(count * log count) weights, in blocks of about `count`."""
    rows = _Rows(candidates, count)
    while rows.open_rows(count):
        rows.extend(weigh)
    return rows.picks(count)


def _first_heads(candidates: Candidates) -> list[_Head]:
    pairs = zip(candidates.weights.tolist(), candidates.ties.tolist(), strict=True)
    return [(weight, tie, index, 0) for index, (weight, tie) in enumerate(pairs)]


def _picks(picked: list[_Head]) -> Picks:
    weights, _, indices, placed = np.array(picked, dtype=np.int64).reshape(-1, 4).T
    return Picks(indices, weights, placed)


class _Rows:
    """The known parts of the rows of (weight, tie key) pairs, and the rows that may still matter.

    A peak is stored as two numbers: its weight, and its `order`, the tie key followed by the row number.
    """

    def __init__(self, candidates: Candidates, count: int) -> None:
        first = candidates.weights[:count]
        self._free_slots = candidates.free_slots[:count]
        self._indices = np.arange(len(first), dtype=np.int64)
        self._placed = np.zeros(len(first), dtype=np.int64)
        self._weights = first
        self._peaks = first
        self._last_peak = first.copy()
        self._last_tie = candidates.ties[:count].copy()
        self._orders = _order(self._last_tie, self._indices)
        self._open = self._free_slots > 1
        self._known = 1

    def open_rows(self, count: int) -> bool:
        """Close the rows whose unknown pairs come after the first `count` picks; tell whether any is open."""
        if len(self._peaks) >= count:
            limit = np.partition(self._peaks, count - 1)[count - 1]
            tied = np.sort(self._orders[self._peaks == limit])
            last_order = tied[count - 1 - np.count_nonzero(self._peaks < limit)]
            row_numbers = np.arange(len(self._last_tie), dtype=np.int64)
            at_limit = (self._last_peak == limit) & (_order(self._last_tie, row_numbers) < last_order)
            self._open &= (self._last_peak < limit) | at_limit
        return bool(self._open.any())

    def extend(self, weigh: WeighMany) -> None:
        """Double the number of known pairs of each open row, as far as its host has free slots."""
        still_open = np.flatnonzero(self._open)
        levels = self._known + np.arange(self._known, dtype=np.int64)
        block = np.full((len(still_open), len(levels)), REFUSED, dtype=np.int64)
        ties = np.zeros_like(block)
        row, column = np.nonzero(levels < self._free_slots[still_open, np.newaxis])
        block[row, column], ties[row, column] = weigh(still_open[row], levels[column])
        peaks, peak_ties = self._peaks_of(block, ties, still_open)
        self._last_peak[still_open] = peaks[:, -1]
        self._last_tie[still_open] = peak_ties[:, -1]
        self._known *= 2
        self._open[still_open] = (peaks[:, -1] != REFUSED) & (self._free_slots[still_open] > self._known)
        row, column = np.nonzero(peaks != REFUSED)
        indices = still_open[row]
        self._indices = np.concatenate([self._indices, indices])
        self._placed = np.concatenate([self._placed, levels[column]])
        self._weights = np.concatenate([self._weights, block[row, column]])
        self._peaks = np.concatenate([self._peaks, peaks[row, column]])
        self._orders = np.concatenate([self._orders, _order(peak_ties[row, column], indices)])

    def _peaks_of(self, block: Ints, ties: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Return weight and tie key of the peak at each pair of a block, which continues the given rows."""
        last_peak = self._last_peak[rows, np.newaxis]
        peaks = np.maximum.accumulate(np.maximum(block, last_peak), axis=1)
        # A higher weight begins a new peak, whatever its tie key; pairs below the peak change nothing.
        rises = np.diff(peaks, axis=1, prepend=last_peak) > 0
        peak_number = np.cumsum(rises, axis=1, dtype=np.int64)
        numbered = (peak_number << TIE_BITS) | np.where(block == peaks, ties, 0)
        np.maximum(numbered[:, 0], self._last_tie[rows], out=numbered[:, 0])
        np.maximum.accumulate(numbered, axis=1, out=numbered)
        return peaks, numbered & MAX_TIE

    def picks(self, count: int) -> Picks:
        """Return the first `count` picks, in order."""
        near = np.arange(len(self._peaks))
        if len(near) > count:
            limit = np.partition(self._peaks, count - 1)[count - 1]
            near = np.flatnonzero(self._peaks <= limit)
        # The pairs of each row are stored in order, and lexsort is stable.
        chosen = near[np.lexsort((self._orders[near], self._peaks[near]))[:count]]
        return Picks(self._indices[chosen], self._weights[chosen], self._placed[chosen])


def _order(ties: Ints, rows: Ints) -> Ints:
    return (ties << _ROW_BITS) | rows
