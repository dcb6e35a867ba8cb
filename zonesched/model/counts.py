"""Counts by host and key, in columns; each host has few keys.

>>> counts = Counts.of([{"a": 2}, {}, {"b": 1, "a": 3}])
>>> counts.positions.tolist(), [counts.keys[n] for n in counts.numbers], counts.amounts.tolist()
([0, 2, 2], ['a', 'a', 'b'], [2, 3, 1])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Ints


@dataclass(frozen=True)
class Counts:
    """One element per host and key, in order of host, then of key; amounts are above 0.

    `positions` are indices of the hosts, and `numbers` are indices of the sorted `keys`.
    """

    positions: Ints
    keys: Sequence[str]
    numbers: Ints
    amounts: Ints

    @classmethod
    def of(cls, by_host: Sequence[Mapping[str, int]]) -> Counts:
        """Build the counts from one mapping per host; counts of 0 are left out."""
        items = [
            (n, key, amount) for n, counts in enumerate(by_host) for key, amount in counts.items() if amount
        ]
        return cls.summed([n for n, _, _ in items], [k for _, k, _ in items], [a for _, _, a in items])

    @classmethod
    def counted(cls, positions: Sequence[int], keys: Sequence[str]) -> Counts:
        """Count how often each pair of host and key occurs, in any order."""
        return cls.summed(positions, keys, [1] * len(keys))

    @classmethod
    def summed(cls, positions: Sequence[int], keys: Sequence[str], amounts: Sequence[int]) -> Counts:
        """Build from elements above 0, in any order; amounts of the same host and key are added."""
        distinct = sorted(set(keys))
        number_of = {key: number for number, key in enumerate(distinct)}
        numbers = np.array([number_of[key] for key in keys], dtype=np.int64)
        cells = np.array(positions, dtype=np.int64) * max(1, len(distinct)) + numbers
        cells, cell_of = np.unique(cells, return_inverse=True)
        added = np.bincount(cell_of, weights=amounts, minlength=len(cells)).astype(np.int64)
        hosts, numbers = np.divmod(cells, max(1, len(distinct)))
        return cls(hosts, distinct, numbers, added)

    def by_host(self, hosts: int) -> list[dict[str, int]]:
        """Return the counts of each host as a mapping; `hosts` is the number of hosts."""
        found: list[dict[str, int]] = [{} for _ in range(hosts)]
        columns = (self.positions.tolist(), self.numbers.tolist(), self.amounts.tolist())
        for position, number, amount in zip(*columns, strict=True):
            found[position][self.keys[number]] = amount
        return found
