"""Bodies and query strings are bounded before anything is believed."""

from __future__ import annotations

import io
import time
import tracemalloc
from typing import Any

import orjson
import pytest
from flask import Request
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import EnvironBuilder

from zonesched.api.body import fingerprint, parse_object, read_body, read_query
from zonesched.errors import BadRequest, TooLarge
from zonesched.model.json_shape import DEEPEST

LIMIT = 1024
MANY = 10**9


def a_request(
    data: bytes = b"{}", content_type: str = "application/json", query: str = "", **environ: Any
) -> Request:
    builder = EnvironBuilder(method="POST", data=data, content_type=content_type, query_string=query)
    return Request({**builder.get_environ(), **environ})


def nested(levels: int) -> bytes:
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


def test_an_object_comes_back_as_it_was() -> None:
    data = b'{"server": {"name": "a"}}'
    assert read_body(a_request(data), LIMIT) == data
    assert parse_object(data, MANY) == {"server": {"name": "a"}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b"name=a",
        b"\xff\xfe{}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -1e999}',
        b'{"a": 1,}',
        b'{"a": "\\ud800"}',
        b"{} {}",
    ],
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_object(data, MANY)
    assert (refused.value.code, refused.value.field) == ("body_not_json", "body")


@pytest.mark.parametrize("data", [b"[]", b"1", b'"a"', b"null", b"true"])
def test_json_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_object(data, MANY)
    assert refused.value.code == "body_not_json"


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_form_that_any_web_page_can_send_is_refused(content_type: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_body(a_request(content_type=content_type), LIMIT)
    assert refused.value.field == "Content-Type"


def test_a_charset_beside_the_type_is_fine() -> None:
    assert read_body(a_request(content_type="application/json; charset=utf-8"), LIMIT) == b"{}"


def test_the_deepest_body_is_read() -> None:
    assert DEEPEST == 32
    assert "a" in parse_object(nested(32), MANY)


@pytest.mark.parametrize("levels", [DEEPEST + 1, 1000, 100_000])
@pytest.mark.parametrize("opening", [b'{"a":', b"["])
def test_a_deeper_body_is_refused(levels: int, opening: bytes) -> None:
    closing = b"}" if opening != b"[" else b"]"
    data = b'{"a":' + opening * (levels - 2) + b"{}" + closing * (levels - 2) + b"}"
    with pytest.raises(BadRequest) as refused:
        parse_object(data, MANY)
    assert (refused.value.code, refused.value.field) == ("body_too_deep", "body")


def test_brackets_in_strings_do_not_make_a_body_deep() -> None:
    assert parse_object(b'{"a": "' + b"[" * 2000 + b'"}', MANY)["a"] == "[" * 2000
    with pytest.raises(BadRequest) as refused:
        parse_object(b'{"a": "' + b"[" * 2000 + b'\\"{" oops}', MANY)
    assert refused.value.code == "body_not_json"


def test_an_announced_size_is_refused_unread() -> None:
    unreadable = io.BytesIO()
    unreadable.close()
    environ: dict[str, Any] = {"wsgi.input": unreadable, "CONTENT_LENGTH": "1025"}
    with pytest.raises(TooLarge) as refused:
        read_body(a_request(**environ), LIMIT)
    assert refused.value.code == "body_too_large"


def test_a_body_of_unknown_size_is_read_no_further_than_its_limit() -> None:
    stream = io.BytesIO(b'{"a": "' + b"a" * 5000 + b'"}')
    environ: dict[str, Any] = {"wsgi.input": stream, "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    with pytest.raises(TooLarge):
        read_body(a_request(**environ), LIMIT)
    assert stream.tell() == 1025


def test_a_body_of_just_the_limit_is_read() -> None:
    data = b'{"a": "' + b"a" * (1024 - 9) + b'"}'
    assert len(data) == 1024
    assert read_body(a_request(data), LIMIT) == data


@pytest.mark.parametrize(
    "data",
    [b'{"a": "x\\u0000"}', b'{"a\\u0000": 1}', b'{"a": {"b": ["\\u0000"]}}', b'{"a": [{"\\u0000": 1}]}'],
)
def test_nul_characters_are_refused_wherever_they_stand(data: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_object(data, MANY)
    assert "NUL" in refused.value.message


def test_the_spelling_of_a_nul_escape_is_just_text() -> None:
    assert parse_object(b'{"a": "\\\\u0000"}', MANY) == {"a": "\\u0000"}


def test_a_body_of_more_values_than_its_limit_is_refused_before_it_is_built() -> None:
    data = b'{"a": [' + b"0," * 5_000_000 + b"0]}"
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge) as refused:
            parse_object(data, 1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (refused.value.code, refused.value.field) == ("body_too_many_values", "body")
    assert peak < 2_000_000


def test_a_text_of_escaped_quotes_without_an_end_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(BadRequest):
        parse_object(b'{"a": "' + b'\\"' * 500_000, MANY)
    assert time.process_time() - started < 0.2


TEXT = st.text(alphabet='ab"[]{}\\,:\x01é\U0001f600', max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_every_shallow_object_passes_unchanged(value: dict[str, Any]) -> None:
    assert parse_object(orjson.dumps(value), MANY) == value


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    try:
        parse_object(data, MANY)
    except BadRequest as refused:
        assert refused.code in {"body_not_json", "body_too_deep", "invalid_value"}


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        read_query(a_request(query="status=ACTIVE&status=ERROR"))
    assert refused.value.field == "status"


def test_a_nul_in_the_query_is_refused() -> None:
    with pytest.raises(BadRequest):
        read_query(a_request(query="name=a%00b"))


def test_a_query_is_read_by_name() -> None:
    assert read_query(a_request(query="name=a%20b&all_tenants")) == {"name": "a b", "all_tenants": ""}


def test_the_order_of_keys_does_not_change_a_fingerprint() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})


def test_another_value_changes_a_fingerprint() -> None:
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
