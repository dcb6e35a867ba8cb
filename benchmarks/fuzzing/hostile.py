"""Strategies of hostile values: scalars at and beyond limits, mutated documents, texts that are no JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

WORDS = (
    "",
    " ",
    "\0",
    "\x1f",
    "\n",
    "\ud800",
    "\u202e",
    "\u2028",
    "\N{SNOWMAN}",
    "\U0001f600",
    "e\u0301",
    "İ",
    "ß",
    "٣",
    "²",
    "1" * 25,
    "1" * 5000,
    "-1",
    "0x10",
    "1e999",
    "-0",
    "nan",
    "inf",
    "1_000",
    "true",
    "null",
    "[]",
    "{}",
    "[" * 40,
    "[" * 5000,
    '["and", ["=", "$free_ram_mb", 1]]',
    "$",
    "$free_ram_mb",
    "$capabilities.a.b",
    "../..",
    "%00",
    "%s%n",
    "{0.__class__}",
    "' or 1=1 --",
    "<or> <or>",
    "<in>",
    ">= 1",
    "s== x",
    "=",
    ",",
    ";",
    ":",
    "a:b",
    "a" * 255,
    "a" * 256,
    "é" * 255,
    "a" * 70_000,
    "11111111-1111-4111-8111-111111111111",
    "11111111-1111-4111-8111-11111111111A",
    "00000000-0000-0000-0000-000000000000",
    "/24",
    "10.0.0.1",
    "fe80::1%lo",
    "::ffff:10.0.0.1",
)

NUMBERS = (
    0,
    1,
    -1,
    2,
    255,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
)


def _word(number: int) -> str:
    return WORDS[number]


# By number: Hypothesis prints the elements of what it samples from, and some are very long.
words = st.integers(0, len(WORDS) - 1).map(_word) | st.text(max_size=20)
_json_numbers = st.integers(-(2**31), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars: SearchStrategy[Any] = st.one_of(
    st.sampled_from(NUMBERS), words, st.none(), st.booleans(), _json_numbers, st.integers(0, 99)
)
values = st.recursive(
    scalars | st.sampled_from(("[]", "{}", "[[]]", "[{}]", '{"": {}}')).map(json.loads),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
"""Any JSON value, and some that JSON has not."""


def mutated(documents: SearchStrategy[Any], known: Sequence[Any] = ()) -> SearchStrategy[Any]:
    """Documents with up to four changes; `known`: values that mean something to the reader."""
    return _mutated(documents, st.sampled_from(known) | values if known else values)


CHANGES = ("replace",) * 6 + ("delete", "add", "repeat", "repeat", "nest", "copy", "rename")


@st.composite
def _mutated(draw: DrawFn, documents: SearchStrategy[Any], new: SearchStrategy[Any]) -> Any:
    document = copy.deepcopy(draw(documents))
    for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2, 4)))):
        holder = [document]
        places = list(_places(holder))
        container, key = places[draw(st.integers(0, len(places) - 1))]
        _change(draw, container, key, new, places)
        document = holder[0] if holder else None
    return document


def _places(container: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a document, its root first."""
    found: list[tuple[Any, Any]] = []
    level = [container]
    while level and len(found) < 500:
        here = level.pop(0)
        for key in list(here) if isinstance(here, dict) else range(len(here)):
            found.append((here, key))
            if isinstance(here[key], dict | list):
                level.append(here[key])
    return found


def _change(
    draw: DrawFn, container: Any, key: Any, new: SearchStrategy[Any], places: list[tuple[Any, Any]]
) -> None:
    """Change one place of a document."""
    match draw(st.sampled_from(CHANGES)):
        case "replace":
            container[key] = draw(new)
        case "delete":
            del container[key]
        case "add":
            target = container[key]
            if isinstance(target, dict):
                target[draw(words)] = draw(new)
            elif isinstance(target, list):
                target.append(draw(new))
            else:
                container[key] = [target]
        case "repeat":
            if isinstance(container[key], list):
                container[key] = container[key] * draw(st.sampled_from((2, 20, 300)))
            elif isinstance(container[key], str):
                container[key] = container[key] * draw(st.sampled_from((2, 20, 3000)))
        case "nest":
            for _ in range(draw(st.sampled_from((1, 31, 33, 60)))):
                container[key] = [container[key]] if draw(st.booleans()) else {"a": container[key]}
        case "copy":
            other, other_key = places[draw(st.integers(0, len(places) - 1))]
            if other_key in other if isinstance(other, dict) else other_key < len(other):
                container[key] = copy.deepcopy(other[other_key])
        case _:
            if isinstance(container, dict):
                container[draw(words)] = container.pop(key)


@st.composite
def json_bytes(draw: DrawFn, documents: SearchStrategy[Any]) -> bytes:
    """The text of documents: mostly JSON, with what JSON has not, and cut or changed somewhere."""
    data = as_bytes(draw(documents), ascii_only=draw(st.booleans()))
    return draw(changed_bytes(data))


def as_bytes(document: Any, *, ascii_only: bool = True) -> bytes:
    """Write a document as Python does: NaN and lone surrogates, which JSON has not, included."""
    return json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


@st.composite
def changed_bytes(draw: DrawFn, data: bytes) -> bytes:
    """These bytes, mostly as they are."""
    if draw(st.integers(0, 7)):
        return data
    at = draw(st.integers(0, len(data)))
    to = draw(st.integers(at, min(len(data), at + 40)))
    piece = draw(
        st.sampled_from(
            (
                b"",
                b'"',
                b"\\",
                b"{",
                b"[" * 50,
                b"]",
                b",",
                b":",
                b"\x00",
                b"9" * 5000,
                b"\xff",
                b"\xed\xa0\x80",
            )
        )
        | st.binary(max_size=20)
    )
    repeated = data[at:to] * draw(st.sampled_from((0, 0, 1, 2, 50)))
    return data[:at] + repeated + piece + data[to:]
