"""A short form of `benchmarks/fuzz.py`: the same inputs of each target every time, about a minute in all."""

from __future__ import annotations

import time

import pytest
from hypothesis import strategies as st

from benchmarks.fuzzing.catalog import TARGETS
from benchmarks.fuzzing.play import play_inputs
from benchmarks.fuzzing.target import ANSWER_MS, Late, Target, Work, stateless

pytestmark = pytest.mark.once

INPUTS = 150


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_crashes_a_parser_or_holds_it_up(name: str) -> None:
    assert play_inputs(TARGETS[name], INPUTS).inputs >= INPUTS


def a_target(read: object) -> Target:
    def check(given: bytes) -> Work:
        assert callable(read)
        read(given)
        return Work(len(given))

    return Target("planted", "a parser with a fault", lambda: st.binary(max_size=4), stateless(check))


def test_a_parser_that_crashes_is_found() -> None:
    def read(given: bytes) -> None:
        given.decode()

    with pytest.raises(UnicodeDecodeError):
        play_inputs(a_target(read), 200)


@pytest.mark.slow
def test_an_answer_that_is_late_each_time_is_found() -> None:
    def read(given: bytes) -> None:
        ends_at = time.process_time() + ANSWER_MS / 1000 * 1.1 * (len(given) > 3)
        while time.process_time() < ends_at:
            pass

    with pytest.raises(Late):
        play_inputs(a_target(read), 200)


def test_an_answer_that_is_late_once_is_not_a_find() -> None:
    late = [True]

    def read(given: bytes) -> None:
        ends_at = time.process_time() + ANSWER_MS / 1000 * 1.1 * late.pop() if late else 0.0
        while time.process_time() < ends_at:
            pass

    assert play_inputs(a_target(read), 50).slowest_ms < ANSWER_MS
