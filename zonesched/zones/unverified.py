"""Reader of unverified JSON: each member is read by name, type, form and limits.

    answer = Unverified.parse(body)
    answer.object("zone").text("uuid", UUID)

Any violation raises Invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import orjson

from zonesched.model.json_shape import nests_deeper

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_DEEPEST = 128
"""More levels than an answer has around a tenant's own value, whose body has at most 32."""

_LAST_CHARACTERS = {0: frozenset(_ALPHABET.decode()), 2: frozenset("AQgw"), 3: frozenset("AEIMQUYcgkosw048")}


class Invalid(ValueError):
    """The content is invalid. The error has none of it."""


class Unverified:
    """One JSON object. A member without `default` is required."""

    def __init__(self, value: Any) -> None:
        if type(value) is not dict:
            raise Invalid
        self._value = value

    @classmethod
    def parse(cls, body: bytes) -> Unverified:
        """Parse a JSON object by RFC 8259: no NaN, no number beyond a double, no duplicate member."""
        try:
            value = orjson.loads(body)
            # As many colons as members: no duplicates. Colons inside texts need the slow check.
            if body.count(b":") != _members(value):
                if nests_deeper(body, _DEEPEST):
                    raise Invalid
                json.loads(body, object_pairs_hook=_once_each)
        except ValueError:
            raise Invalid from None
        return cls(value)

    def items(self) -> list[tuple[str, Any]]:
        return list(self._value.items())

    def names(self) -> list[str]:
        return list(self._value)

    def object(self, name: str, *, optional: bool = False) -> Unverified:
        return Unverified(self._get(name, {} if optional else None))

    def objects(self, name: str, most: int, *, optional: bool = False) -> list[Unverified]:
        return [Unverified(item) for item in self.array(name, most, optional=optional)]

    def array(self, name: str, most: int, *, optional: bool = False) -> list[Any]:
        value = self._get(name, [] if optional else None)
        if type(value) is not list or len(value) > most:
            raise Invalid
        return value

    def text(self, name: str, form: re.Pattern[str], default: str | None = None) -> str:
        value = self._get(name, default)
        if type(value) is not str or not form.fullmatch(value):
            raise Invalid
        return value

    def texts(self, name: str, form: re.Pattern[str], most: int) -> list[str]:
        values = self.array(name, most)
        if not all(type(value) is str and form.fullmatch(value) for value in values):
            raise Invalid
        return values

    def whole(self, name: str, low: int, high: int) -> int:
        value = self._get(name, None)
        if type(value) is not int or not low <= value <= high:
            raise Invalid
        return value

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        value = self._get(name, default)
        if type(value) not in (int, float) or not low <= value <= high:
            raise Invalid
        return float(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._get(name, default)
        if type(value) is not bool:
            raise Invalid
        return value

    def has(self, name: str) -> bool:
        return name in self._value

    def _get(self, name: str, default: Any) -> Any:
        value = self._value.get(name, default)
        if value is None:
            raise Invalid
        return value


def blob_bytes(blobs: Sequence[str]) -> int:
    """Return the common size of these sealed entries: each in canonical base64url, no duplicates."""
    lengths = set(map(len, blobs))
    if len(lengths) != 1 or len(set(blobs)) != len(blobs):
        raise Invalid
    length = lengths.pop()
    last = _LAST_CHARACTERS.get(length % 4)
    joined = "".join(blobs)
    if last is None or joined.encode().translate(None, _ALPHABET):
        raise Invalid
    if not all(blob[-1:] in last for blob in blobs):
        raise Invalid
    return length * 3 // 4


def _members(value: Any) -> int:
    """Count the members of all objects in a JSON value."""
    count = 0
    level = [value]
    while level:
        objects = [item for item in level if type(item) is dict]
        lists = [item for item in level if type(item) is list]
        count += sum(map(len, objects))
        inner = chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(lists))
        level = [item for item in inner if type(item) is dict or type(item) is list]
    return count


def _once_each(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise Invalid
