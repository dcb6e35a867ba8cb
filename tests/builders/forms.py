"""Forms of JSON values: types, literals and patterns, member by member."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""Nova's form of the times of servers and images."""
ZONELESS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
"""Nova's form of all other times: UTC, to the microsecond."""
HOST_ID = re.compile(r"[0-9a-f]{56}")
REQUEST_ID = re.compile("req-" + UUID.pattern)
FINGERPRINT = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){15}")


class Each(tuple[Any, ...]):
    """Form of a list with an item for each of these forms, in order."""

    def __new__(cls, *forms: Any) -> Each:
        return super().__new__(cls, forms)


def mismatches(form: Any, value: Any, path: str = "") -> Iterator[str]:
    """Find where a value does not have a form.

    A type: of that type, where a whole number is also a fraction but no truth value. A pattern: a text that
    it describes wholly. A set: one of these forms. A list of one form: so is each item; a dict: these members
    and no others. Anything else: the value itself.
    """
    match form:
        case type():
            is_of = isinstance(value, (int, float) if form is float else form)
            if not is_of or (isinstance(value, bool) and form is not bool):
                yield f"{path}: {value!r} is no {form.__name__}"
        case re.Pattern():
            if not isinstance(value, str) or not form.fullmatch(value):
                yield f"{path}: {value!r} is not {form.pattern}"
        case frozenset():
            if all(any(mismatches(choice, value)) for choice in form):
                yield f"{path}: {value!r} is none of {sorted(map(str, form))}"
        case Each() if isinstance(value, list) and len(value) == len(form):
            for number, (one, item) in enumerate(zip(form, value, strict=True)):
                yield from mismatches(one, item, f"{path}[{number}]")
        case [only] if isinstance(form, list) and isinstance(value, list):
            for number, item in enumerate(value):
                yield from mismatches(only, item, f"{path}[{number}]")
        case Mapping() if isinstance(value, dict):
            yield from (f"{path}.{name} is missing" for name in form.keys() - value.keys())
            yield from (f"{path}.{name} is unknown: {value[name]!r}" for name in value.keys() - form.keys())
            for name in form.keys() & value.keys():
                yield from mismatches(form[name], value[name], f"{path}.{name}")
        case _:
            if value != form or type(value) is not type(form):
                yield f"{path}: {value!r} is not {form!r}"


def or_null(form: Any) -> frozenset[Any]:
    """Make the form of a value that may be null."""
    return frozenset({form, None})


def links_to(noun: str, *, only_bookmark: bool = False) -> Any:
    """Make the form of the links of an item."""
    own = {"rel": "self", "href": re.compile(rf"https?://[^/]+/v2\.1/{noun}/[^/]+")}
    bookmark = {"rel": "bookmark", "href": re.compile(rf"https?://[^/]+/{noun}/[^/]+")}
    return Each(bookmark) if only_bookmark else Each(own, bookmark)
