"""A JSON text is bounded before it is parsed, in one linear pass."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zonesched.model import json_shape
from zonesched.model.json_shape import Shape, Verdict, judge, nests_deeper, shape_of

MEGABYTE = 1_000_000
SLOWEST_MS_PER_MB = 60


def counted(value: Any) -> Shape:
    """The shape of a parsed value, by recursion."""
    match value:
        case dict() | list():
            inner = list(value.values()) if isinstance(value, dict) else value
            keys = len(value) if isinstance(value, dict) else 0
            shapes = [counted(item) for item in inner]
            depth = 1 + max((shape.depth for shape in shapes), default=0)
            return Shape(depth, 1 + keys + sum(shape.values for shape in shapes) + (not inner))
        case _:
            return Shape(0, 1)


TEXT = st.text(alphabet='ab"[]{}\\,:\x01é\U0001f600', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.integers(1, 9))
def test_the_shape_is_that_of_the_parsed_value_wherever_blocks_end(value: Any, block_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_shape, "BLOCK_BYTES", block_bytes)
        assert shape_of(orjson.dumps(value)) == counted(value)


@given(st.lists(st.sampled_from([b'"', b"\\", b"[", b"]", b"{", b",", b":", b"1", b"x"])), st.integers(1, 9))
@example([b'"', b"\\", b"\\", b'"', b"["], 3)
def test_blocks_change_nothing_for_any_bytes(pieces: list[bytes], block_bytes: int) -> None:
    data = b"".join(pieces)
    whole = shape_of(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_shape, "BLOCK_BYTES", block_bytes)
        assert shape_of(data) == whole


@given(JSON, st.integers(0, 6), st.integers(0, 30))
def test_the_verdict_goes_by_the_shape(value: Any, max_depth: int, max_values: int) -> None:
    shape = counted(value)
    fits = shape.depth <= max_depth and shape.values <= max_values
    assert (judge(orjson.dumps(value), max_depth, max_values) is Verdict.FITS) is fits


@given(JSON, st.binary(max_size=20), st.data())
def test_a_text_that_breaks_off_counts_no_less_than_what_stands_before_the_fault(
    value: Any, garbage: bytes, data: st.DataObject
) -> None:
    text = orjson.dumps(value)
    cut = data.draw(st.integers(0, len(text)))
    before, after = shape_of(text[:cut]), shape_of(text[:cut] + garbage)
    assert after.depth >= before.depth
    assert after.values >= before.values


def test_long_strings_take_a_fraction_of_the_time_of_as_many_small_values() -> None:
    took_s = []
    for data in (b'["' + b"a" * MEGABYTE + b'"]', b"[" + b"1," * (MEGABYTE // 2) + b"1]"):
        started = time.process_time()
        for _ in range(5):
            shape_of(data)
        took_s.append(time.process_time() - started)

    assert took_s[0] < took_s[1] / 3


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": "' + b'\\"' * (MEGABYTE // 2),
        b'{"a": ' + b'"\\' * (MEGABYTE // 2),
        b'"' * MEGABYTE,
        b"[" * MEGABYTE,
        b"[]" * (MEGABYTE // 2),
        b'{"a":' * (MEGABYTE // 5),
        b'{"builds": [' + b"0, " * (MEGABYTE // 3) + b"0]}",
        b"\\" * MEGABYTE,
        b'["' + b"a" * MEGABYTE + b'"]',
    ],
    ids=lambda data: data[:12].decode(),
)
def test_no_content_takes_longer_than_its_length(data: bytes) -> None:
    started = time.process_time()
    judge(data, 10**9, 10**9)
    shape_of(data)
    assert (time.process_time() - started) * 1000 < SLOWEST_MS_PER_MB * 2


@given(JSON, st.integers(0, 6))
def test_a_text_nests_deeper_by_its_shape(value: Any, levels: int) -> None:
    assert nests_deeper(orjson.dumps(value).decode(), levels) is (counted(value).depth > levels)


@pytest.mark.parametrize("text", ["[" * 33, '"\ud800"' + "[" * 33, '{"a":' * 33])
def test_a_text_of_33_levels_nests_deeper_than_32(text: str) -> None:
    assert nests_deeper(text, 32)
    assert not nests_deeper(text, 33)
