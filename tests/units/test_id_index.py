"""Rows by id, asked for many ids at once."""

from __future__ import annotations

import random
from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.id_index import NOWHERE, IdIndex

SEEDS = st.integers(0, 2**32 - 1)
# Uuids, uuids that are alike, and texts that are none: short, long, and of other characters.
IDS = [
    *(str(UUID(int=number)) for number in range(400)),
    *(str(UUID(int=number * 0x9E3779B97F4A7C15 % 2**128)) for number in range(1, 200)),
    *(f"{number}f" for number in range(100)),
    "",
    "é" * 36,
    "x" * 37,
]


@given(SEEDS, st.integers(1, 30))
def test_an_index_says_what_a_dictionary_says(seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    index, rows = IdIndex(), dict[str, int]()
    free = list(range(len(IDS)))
    for _ in range(rounds):
        new = [name for name in rng.sample(IDS, rng.randint(0, 60)) if name not in rows]
        taken = [free.pop(rng.randrange(len(free))) for _ in new]
        index.add(new, np.array(taken, dtype=np.int64))
        rows |= dict(zip(new, taken, strict=True))
        for name in rng.sample(IDS, rng.randint(0, 40)):
            row = rows.pop(name, NOWHERE)
            assert index.remove(name) == row
            free += [row] if row != NOWHERE else []

    asked = rng.sample(IDS, len(IDS))
    assert index.rows(asked).tolist() == [rows.get(name, NOWHERE) for name in asked]
    assert all(index.rows([name]).tolist() == [rows.get(name, NOWHERE)] for name in asked[:50])
    assert [index.row(name) for name in asked] == [rows.get(name, NOWHERE) for name in asked]
    assert len(index) == len(rows)
