"""Host counters: what each row has of each key, while rows change, are given back and become more."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.counts import Counts
from zonesched.model.host_counters import HostCounters

ROOM = 8
KEYS = ("a", "b", "c", "d", "e")
SEEDS = st.integers(0, 2**32 - 1)


def some_counts(rng: random.Random) -> dict[str, int]:
    return {key: rng.randint(0, 3) for key in rng.sample(KEYS, rng.randint(0, len(KEYS)))}


def put(tallies: HostCounters, by_row: Mapping[int, Mapping[str, int]]) -> None:
    tallies.set(np.array(list(by_row), dtype=np.int64), Counts.of(list(by_row.values())))


@given(SEEDS, st.integers(1, 120))
def test_host_counters_say_what_each_row_was_last_given(seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    tallies, model = HostCounters(ROOM), dict[int, dict[str, int]]()
    for _ in range(rounds):
        by_row = {row: some_counts(rng) for row in rng.sample(range(ROOM), rng.randint(0, ROOM))}
        put(tallies, by_row)
        model |= {row: {key: n for key, n in counts.items() if n} for row, counts in by_row.items()}

    assert {row: tallies.of_row(row) for row in model} == model
    assert set(tallies.keys()) == {key for counts in model.values() for key in counts}
    for key in KEYS:
        wanted = [model.get(row, {}).get(key, 0) for row in range(ROOM)]
        assert [tallies.count(row, key) for row in range(ROOM)] == wanted
        assert tallies.column(key, ROOM).tolist() == wanted
        assert tallies.has(key) == any(wanted)


@given(SEEDS)
def test_scores_are_added_in_order_of_their_keys(seed: int) -> None:
    rng = random.Random(seed)
    tallies, model = HostCounters(ROOM), {row: some_counts(rng) for row in range(ROOM)}
    for row in rng.sample(range(ROOM), ROOM):
        put(tallies, {row: model[row]})
    scores = {key: rng.uniform(-1, 1) for key in rng.sample([*KEYS, "no such key"], 4)}

    found = tallies.weighed(scores, ROOM).tolist()

    for row, counts in model.items():
        wanted = 0.0
        for key in sorted(counts.keys() & scores.keys()):
            wanted += counts[key] * scores[key]
        assert found[row] == wanted


def test_a_key_that_comes_and_goes_does_not_stay() -> None:
    tallies = HostCounters(ROOM)
    for number in range(1_000):
        put(tallies, {0: {f"key-{number}": 1}})
    assert list(tallies.keys()) == ["key-999"]
    assert tallies.column("key-5", ROOM).tolist() == [0] * ROOM


def test_rows_stay_when_tallies_grow() -> None:
    tallies = HostCounters(2)
    put(tallies, {1: {"a": 2}})
    tallies.grow(600)
    put(tallies, {row: {"a": 1, "b": row} for row in range(2, 600)})
    assert (tallies.count(1, "a"), tallies.column("b", 600).sum()) == (2, sum(range(2, 600)))


def test_counts_of_the_same_host_and_key_are_added_up() -> None:
    counts = Counts.summed([1, 0, 1], ["b", "a", "b"], [2, 1, 3])
    assert counts.by_host(3) == [{"a": 1}, {"b": 5}, {}]


@given(SEEDS, st.integers(1, 120))
def test_counts_of_several_rows_that_change_together(seed: int, rounds: int) -> None:
    # given counters that were set, some of whose columns are cached
    rng = random.Random(seed)
    tallies, model = HostCounters(ROOM), {row: some_counts(rng) for row in range(ROOM)}
    put(tallies, model)
    for _ in range(rounds):
        rows, key = rng.sample(range(ROOM), rng.randint(0, ROOM)), rng.choice(KEYS)
        more = [rng.randint(-model[row].get(key, 0), 2) for row in rows]
        tallies.column(rng.choice(KEYS), ROOM)

        # when counts change, to nothing and from nothing as well
        if rng.random() < 0.5:
            tallies.add(np.array(rows, dtype=np.int64), key, np.array(more, dtype=np.int64))
        else:
            for row, amount in zip(rows, more, strict=True):
                tallies.add_on(row, key, amount)

        for row, amount in zip(rows, more, strict=True):
            model[row][key] = model[row].get(key, 0) + amount
    # then they are as if they had been set so
    assert {row: tallies.of_row(row) for row in model} == {
        row: {key: n for key, n in counts.items() if n} for row, counts in model.items()
    }
    assert set(tallies.keys()) == {key for counts in model.values() for key, n in counts.items() if n}
    for key in KEYS:
        assert tallies.column(key, ROOM).tolist() == [model[row].get(key, 0) for row in range(ROOM)]
