"""Counts of each host's instances by a shared key (owner, flavor, image, group), for all hosts of a table.

Each host has few keys, so the counts are one pool of (row, key, count), in which the elements of a row are
adjacent, in order of key. A changed row is appended to the pool and its old elements become holes; a full
pool is compacted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from zonesched.model.arrays import Floats, Ints
from zonesched.model.counts import Counts

_Small = npt.NDArray[np.int32]

_HOLE = -1
_NO_NUMBER = -2
_FIRST_ROOM = 256
_MAX_CACHED = 2


class HostCounters:
    """Counts by row and key; a count of 0 is not stored."""

    def __init__(self, room: int) -> None:
        self._starts: _Small = np.zeros(room, dtype=np.int32)
        self._lengths: _Small = np.zeros(room, dtype=np.int32)
        self._rows: _Small = np.zeros(_FIRST_ROOM, dtype=np.int32)
        self._numbers: _Small = np.zeros(_FIRST_ROOM, dtype=np.int32)
        self._amounts: _Small = np.zeros(_FIRST_ROOM, dtype=np.int32)
        self._end = 0
        self._keys: list[str] = []
        self._number_of: dict[str, int] = {}
        self._unused: list[int] = []
        self._holders: Ints = np.zeros(0, dtype=np.int64)
        self._cached: dict[str, Floats] = {}

    def grow(self, room: int) -> None:
        more = np.zeros(room - len(self._starts), dtype=np.int32)
        self._starts = np.concatenate([self._starts, more])
        self._lengths = np.concatenate([self._lengths, more])

    def set(self, rows: Ints, counts: Counts) -> None:
        """Replace the counts of `rows`, each of which is given once."""
        self._cached.clear()
        before = self._clear(rows)
        if len(counts.positions):
            self._append(rows, counts)
        self._forget(before)

    def add(self, rows: Ints, key: str, amounts: Ints) -> None:
        """Change the count of one key in each of `rows` by its amount, which may be negative.

        Each row is given once; no count may fall below 0.
        """
        number = self._number_of.get(key, _NO_NUMBER)
        lengths = self._lengths[rows]
        places = _places(self._starts[rows], lengths)
        found = np.flatnonzero(self._numbers[places] == number)
        owners, places = np.repeat(np.arange(len(rows)), lengths)[found], places[found]
        now = amounts.copy()
        now[owners] += self._amounts[places]
        self._amounts[places] = now[owners]
        # Rows that get the key or lose it; most rows have it before and after.
        others = now > 0
        others[owners] = ~others[owners]
        if others.any():
            self._replace(rows[others], key, now[others])
        if key in self._cached:
            self._cached[key][rows] = now

    def add_on(self, row: int, key: str, amount: int) -> None:
        """Change the count of one key in one row, as `add` does; several times as fast."""
        number = self._number_of.get(key)
        at = None if number is None else self._place_of(row, number)
        now = amount + (0 if at is None else int(self._amounts[at]))
        if at is not None and now > 0:
            self._amounts[at] = now
        else:
            others = self.of_row(row) if self._lengths[row] else {}
            self._replace_one(row, {**others, key: now})
        if key in self._cached:
            self._cached[key][row] = now

    def count(self, row: int, key: str) -> int:
        number = self._number_of.get(key)
        if number is None:
            return 0
        at = self._place_of(row, number)
        return 0 if at is None else int(self._amounts[at])

    def of_row(self, row: int) -> Mapping[str, int]:
        """Return all counts of one row, by key."""
        found = slice(self._starts[row], self._starts[row] + self._lengths[row])
        pairs = zip(self._numbers[found].tolist(), self._amounts[found].tolist(), strict=True)
        return {self._keys[number]: amount for number, amount in pairs}

    def column(self, key: str, size: int) -> Floats:
        """Return the counts of one key, by row; the array is cached until a count changes."""
        cached = self._cached.get(key)
        if cached is None or len(cached) != size:
            if len(self._cached) >= _MAX_CACHED:
                del self._cached[next(iter(self._cached))]
            cached = self._cached[key] = self._column(key, size)
        return cached

    def weighed(self, scores: Mapping[str, float], size: int) -> Floats:
        """Return by row the sum of count times score over the keys, added in order of key."""
        # The extra element at the end is for holes, which have number -1.
        by_number = np.zeros(len(self._keys) + 1)
        for key, score in scores.items():
            if key in self._number_of:
                by_number[self._number_of[key]] = score
        amounts = by_number[self._numbers[: self._end]] * self._amounts[: self._end]
        return np.bincount(self._rows[: self._end], weights=amounts, minlength=size).astype(np.float64)

    def has(self, key: str) -> bool:
        """Tell whether any row has the key."""
        return key in self._number_of

    def keys(self) -> Iterator[str]:
        """Return every key that any row has, in no particular order."""
        return iter(self._number_of)

    def _place_of(self, row: int, number: int) -> int | None:
        start = int(self._starts[row])
        for at in range(start, start + int(self._lengths[row])):
            if self._numbers[at] == number:
                return at
        return None

    def _column(self, key: str, size: int) -> Floats:
        column = np.zeros(size)
        number = self._number_of.get(key)
        if number is not None:
            found = np.flatnonzero(self._numbers[: self._end] == number)
            column[self._rows[found]] = self._amounts[found]
        return column

    def _clear(self, rows: Ints) -> _Small:
        """Turn all elements of these rows into holes; return the key numbers that they had."""
        lengths = self._lengths[rows]
        if not lengths.any():
            return np.zeros(0, dtype=np.int32)
        places = _places(self._starts[rows], lengths)
        before = self._numbers[places]
        self._numbers[places] = _HOLE
        self._lengths[rows] = 0
        np.subtract.at(self._holders, before, 1)
        return before

    def _append(self, rows: Ints, counts: Counts) -> None:
        more = len(counts.positions)
        if self._end + more > len(self._rows):
            self._make_room(more)
        numbers = self._numbers_of(counts)[counts.numbers]
        place = slice(self._end, self._end + more)
        self._rows[place] = rows[counts.positions]
        self._numbers[place] = numbers
        self._amounts[place] = counts.amounts
        np.add.at(self._holders, numbers, 1)
        lengths = np.bincount(counts.positions, minlength=len(rows))
        self._lengths[rows] = lengths
        self._starts[rows] = self._end + np.cumsum(lengths) - lengths
        self._end += more

    def _replace(self, rows: Ints, key: str, amounts: Ints) -> None:
        """Set the count of one key in each of `rows`; leave the cached columns as they are."""
        lengths = self._lengths[rows]
        places = _places(self._starts[rows], lengths)
        numbers = self._numbers[places]
        keys = sorted({key, *(self._keys[number] for number in np.unique(numbers).tolist())})
        rank = np.zeros(len(self._keys), dtype=np.int64)
        for position, known in enumerate(keys):
            if known in self._number_of:
                rank[self._number_of[known]] = position
        others = np.flatnonzero(numbers != self._number_of.get(key, _NO_NUMBER))
        having = np.flatnonzero(amounts)
        positions = np.concatenate([np.repeat(np.arange(len(rows)), lengths)[others], having])
        ranks = np.concatenate([rank[numbers[others]], np.full(len(having), keys.index(key))])
        counts = np.concatenate([self._amounts[places][others], amounts[having]])
        order = np.lexsort((ranks, positions))
        before = self._clear(rows)
        self._append(rows, Counts(positions[order], keys, ranks[order], counts[order]))
        self._forget(before)

    def _replace_one(self, row: int, counts: Mapping[str, int]) -> None:
        """Replace the counts of one row; leave the cached columns as they are."""
        length = int(self._lengths[row])
        if length:
            found = slice(self._starts[row], self._starts[row] + length)
            before = self._numbers[found].copy()
            self._numbers[found] = _HOLE
            self._lengths[row] = 0
            # A row has each number once.
            self._holders[before] -= 1
        stored = sorted([(key, amount) for key, amount in counts.items() if amount])
        if self._end + len(stored) > len(self._rows):
            self._make_room(len(stored))
        for place, (key, amount) in enumerate(stored, self._end):
            number = self._number(key)
            self._rows[place], self._numbers[place], self._amounts[place] = row, number, amount
            self._holders[number] += 1
        self._starts[row], self._lengths[row] = self._end, len(stored)
        self._end += len(stored)
        if length and not self._holders[before].all():
            self._forget(before)

    def _make_room(self, more: int) -> None:
        """Compact the pool, and reserve half as much again as free space."""
        filled = np.flatnonzero(self._numbers[: self._end] != _HOLE)
        room = max(_FIRST_ROOM, (len(filled) + more) * 3 // 2)
        for name in ("_rows", "_numbers", "_amounts"):
            column = np.zeros(room, dtype=np.int32)
            column[: len(filled)] = getattr(self, name)[filled]
            setattr(self, name, column)
        self._end = len(filled)
        rows = self._rows[: self._end]
        firsts = np.flatnonzero(np.diff(rows, prepend=_HOLE))
        self._starts[rows[firsts]] = firsts

    def _numbers_of(self, counts: Counts) -> Ints:
        return np.array([self._number(key) for key in counts.keys], dtype=np.int64)

    def _number(self, key: str) -> int:
        number = self._number_of.get(key)
        if number is None:
            if self._unused:
                number = self._unused.pop()
                self._keys[number] = key
            else:
                number = len(self._keys)
                self._keys.append(key)
                if number == len(self._holders):
                    more = np.zeros(max(16, number), dtype=np.int64)
                    self._holders = np.concatenate([self._holders, more])
            self._number_of[key] = number
        return number

    def _forget(self, numbers: _Small) -> None:
        """Remove the keys among `numbers` that no row has any more."""
        for number in np.unique(numbers[self._holders[numbers] == 0]).tolist():
            del self._number_of[self._keys[number]]
            self._keys[number] = ""
            self._unused.append(number)


def _places(starts: _Small, lengths: _Small) -> Ints:
    """Return every position in the ranges with these starts and lengths."""
    ends = np.cumsum(lengths)
    shifts = np.repeat(starts - (ends - lengths), lengths)
    return shifts + np.arange(len(shifts), dtype=np.int64)
