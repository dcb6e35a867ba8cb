"""Numbers in texts: ASCII digits alone, whatever else Python's own parsers take."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonesched import decimal_text
from zonesched.decimal_text import decimal_number, whole_number

NO_NUMBERS = [
    "",
    " 1",
    "1 ",
    "1\n",
    "1_0",
    "\u0663",
    "\uff11",
    "nan",
    "inf",
    "1e999",
    "0x1",
    "1,5",
    "--1",
    ".",
    "e3",
    "1e",
]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_only_python_takes_is_no_number(text: str) -> None:
    assert decimal_number(text) is None
    assert whole_number(text) is None


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), ("+2", 2.0), ("-.5", -0.5), ("4.", 4.0), ("1e3", 1000.0)]
)
def test_a_number_in_digits_is_read(text: str, number: float) -> None:
    assert decimal_number(text) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_that_python_writes_is_read(number: float) -> None:
    assert decimal_number(repr(number)) == number


@given(st.integers())
def test_every_whole_number_is_read(number: int) -> None:
    assert whole_number(str(number)) == number


@pytest.mark.parametrize("text", ["1.0", "1e3", "9" * 5000])
def test_what_is_not_whole_or_too_long_is_no_whole_number(text: str) -> None:
    assert whole_number(text) is None


def test_the_examples_are_true() -> None:
    assert doctest.testmod(decimal_text).failed == 0
