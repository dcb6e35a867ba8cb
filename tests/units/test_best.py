"""The few best of many values: as sorting them all says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import SEEDS
from zonesched.scheduler.best import best, largest, smallest


@pytest.mark.slow
@given(
    SEEDS,
    st.sampled_from([1, 50, 8_191, 8_192, 9_300, 40_000]),
    st.sampled_from([1, 2, 10, 129, 1_300]),
    st.sampled_from([0, 1, 30, 2**40]),
)
def test_the_smallest_are_found_among_few_and_many_and_equal_values(
    seed: int, size: int, count: int, highest: int
) -> None:
    # given values, of which the last ones, or a few, may be lower than all others
    draw = np.random.default_rng(seed)
    values = draw.integers(0, highest, size, endpoint=True)
    low = random.Random(seed).choice([0, 3, 20])
    values[size - min(low, size) :] -= draw.integers(0, 3, min(low, size))
    # then
    count = min(count, size)
    assert smallest(values, count) == np.sort(values)[count - 1]
    assert largest(values.astype(np.float64), count) == np.sort(values)[size - count]


@pytest.mark.slow
@given(SEEDS, st.sampled_from([5, 9_300]), st.sampled_from([1, 10, 200]), st.sampled_from([0, 3, 2**40]))
def test_the_best_are_those_of_least_weight_then_tie(seed: int, size: int, count: int, highest: int) -> None:
    draw = np.random.default_rng(seed)
    weights = draw.integers(0, highest, size, endpoint=True)
    ties = draw.permutation(size).astype(np.uint64)

    found = best(weights, lambda indices: ties[indices], count)

    assert found.tolist() == np.lexsort((ties, weights))[:count].tolist()
