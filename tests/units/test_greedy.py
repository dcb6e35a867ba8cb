"""The greedy sequence: both ways to it lead to the picks of the plain definition."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import SEEDS
from zonesched.model.arrays import Ints
from zonesched.model.build_plan import MAX_TIE
from zonesched.scheduler.best import best
from zonesched.scheduler.choice import Lots
from zonesched.scheduler.greedy import (
    REFUSED,
    Candidates,
    Picks,
    pick_among_best,
    pick_in_blocks,
    pick_one_by_one,
)
from zonesched.seal.tie_keys import RequestTies

Rows = list[list[int]]


def heads_of(rows: Rows, ties: Rows, placed: list[int]) -> list[tuple[int, int, tuple[int, int, int]]]:
    """Weight and tie key of each host that takes one more; of equal ones the better one at the beginning."""
    return sorted(
        (row[used], tie[used], (row[0], tie[0], index))
        for index, (row, tie, used) in enumerate(zip(rows, ties, placed, strict=True))
        if used < len(row) and REFUSED not in row[: used + 1]
    )


def by_definition(rows: Rows, ties: Rows, count: int) -> tuple[list[int], list[int]]:
    """Look at every host before each pick."""
    placed, indices, weights = [0] * len(rows), [], []
    for _ in range(count):
        heads = heads_of(rows, ties, placed)
        if not heads:
            break
        weight, _, (_, _, index) = heads[0]
        indices.append(index)
        weights.append(weight)
        placed[index] += 1
    return indices, weights


def candidates_of(rows: Rows, ties: Rows, count: int) -> tuple[Ints, Candidates]:
    """The `count` best hosts, and what they offer before anything is placed."""
    first = np.array([row[0] for row in rows], dtype=np.int64)
    first_ties = np.array([tie[0] for tie in ties], dtype=np.int64)
    hashes = (first_ties.astype(np.uint64) << np.uint64(44)) | np.arange(len(rows), dtype=np.uint64)
    order = best(first, lambda indices: hashes[indices], count)
    slots = np.array([len(rows[index]) for index in order], dtype=np.int64)
    return order, Candidates(first[order], first_ties[order], slots)


def picked(rows: Rows, ties: Rows, count: int, in_blocks: bool) -> tuple[list[int], list[int], int]:
    """Picks of the code under test from all hosts, and the number of weights it asked for."""
    asked = 0
    order, candidates = candidates_of(rows, ties, count)

    def weigh(indices: Ints, placed: Ints) -> tuple[Ints, Ints]:
        nonlocal asked
        asked += len(indices)
        pairs = [(rows[order[i]][p], ties[order[i]][p]) for i, p in zip(indices, placed, strict=True)]
        weights, found = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return weights, found

    def weigh_one(index: int, placed: int) -> tuple[int, int]:
        [weight], [tie] = weigh(np.array([index]), np.array([placed]))
        return int(weight), int(tie)

    picks: Picks = (
        pick_in_blocks(candidates, count, weigh)
        if in_blocks
        else pick_one_by_one(candidates, count, weigh_one)
    )
    before: Counter[int] = Counter()
    for index, placed in zip(picks.indices.tolist(), picks.placed.tolist(), strict=True):
        assert placed == before[index]
        before[index] += 1
    return order[picks.indices].tolist(), picks.weights.tolist(), asked


def some_rows(seed: int, hosts: int) -> tuple[Rows, Rows]:
    """Rows that get worse, better, both, or stay; with many equal weights and some that end in a refusal.

    With the tie keys of each: few different ones, or many.
    """
    rng = random.Random(seed)
    levels, tie_levels = rng.choice([2, 10, 1_000]), rng.choice([2, 10, MAX_TIE + 1])
    rows = []
    for _ in range(hosts):
        row = [rng.randrange(levels) for _ in range(rng.randint(1, 12))]
        match rng.randrange(4):
            case 0:
                row.sort()
            case 1:
                row.sort(reverse=True)
            case 2:
                row = [row[0]] * len(row)
        if len(row) > 1 and rng.random() < 0.2:
            row[rng.randrange(1, len(row))] = REFUSED
        rows.append(row)
    return rows, [[rng.randrange(tie_levels) for _ in row] for row in rows]


@given(SEEDS, st.integers(1, 30), st.integers(1, 120))
def test_both_ways_pick_as_the_definition_says(seed: int, hosts: int, count: int) -> None:
    rows, ties = some_rows(seed, hosts)
    expected = by_definition(rows, ties, count)
    assert picked(rows, ties, count, in_blocks=True)[:2] == expected
    assert picked(rows, ties, count, in_blocks=False)[:2] == expected


@given(SEEDS, st.integers(1, 30), st.integers(1, 120))
def test_one_by_one_asks_for_no_weight_twice_nor_after_the_last_pick(
    seed: int, hosts: int, count: int
) -> None:
    rows, ties = some_rows(seed, hosts)
    indices, _, asked = picked(rows, ties, count, in_blocks=False)
    assert asked <= max(0, len(indices) - (len(indices) == count))


@given(SEEDS, st.integers(1, 30), st.integers(1, 60), st.integers(1, 8))
def test_a_pick_by_chance_is_one_of_the_best_heads_of_all_hosts(
    seed: int, hosts: int, count: int, size: int
) -> None:
    rows, ties = some_rows(seed, hosts)
    lots = Lots(RequestTies(f"{seed:032x}"), count)
    order, candidates = candidates_of(rows, ties, count + size - 1)

    picks = pick_among_best(
        candidates,
        count,
        size,
        lots.choose,
        lambda index, placed: (rows[order[index]][placed], ties[order[index]][placed]),
    )

    placed = [0] * hosts
    for number, (index, weight) in enumerate(zip(order[picks.indices], picks.weights, strict=True)):
        heads = heads_of(rows, ties, placed)
        chosen = heads[lots.choose(number, min(size, len(heads)))]
        assert (weight, index) == (chosen[0], chosen[2][2])
        placed[index] += 1
    assert len(picks.indices) == count or not heads_of(rows, ties, placed)


@given(SEEDS, st.integers(1, 80))
def test_blocks_ask_for_few_weights_however_much_room_there_is(seed: int, count: int) -> None:
    rng = random.Random(seed)
    slope = rng.choice([-1, 0, 1])
    rows = [[1_000 + rng.randrange(99) + slope * copy for copy in range(count)] for _ in range(count)]
    _, _, asked = picked(rows, [[0] * count] * count, count, in_blocks=True)
    assert asked <= 2 * count * (1 + count.bit_length())


@given(SEEDS, st.integers(1, 3_000), st.integers(1, 40), st.sampled_from([2, 100, 10**9]))
def test_the_best_few_are_those_that_sorting_all_gives(seed: int, size: int, count: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, levels, size)
    ties = rng.permutation(size).astype(np.uint64)
    assert (
        best(weights, lambda indices: ties[indices], count).tolist()
        == np.lexsort((ties, weights))[:count].tolist()
    )
