"""Read a request's body and query string: bounded before they are parsed, and not yet validated."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from flask import Request

from zonesched.errors import BadRequest, TooLarge
from zonesched.model.json_shape import DEEPEST, Verdict, judge

JSON_TYPE = "application/json"


def read_body(request: Request, max_bytes: int) -> bytes:
    """The body of a request of JSON. Raises TooLarge; BadRequest `body_not_json` for another Content-Type."""
    if request.mimetype != JSON_TYPE:
        raise BadRequest(f"Content-Type must be {JSON_TYPE}.", code="body_not_json", field="Content-Type")
    if (request.content_length or 0) > max_bytes:
        raise _too_large(max_bytes)
    data = request.stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The body is larger than {max_bytes} bytes.", field="body")


def parse_object(data: bytes, max_values: int) -> dict[str, Any]:
    """The JSON object in `data`, at most 32 levels deep, without NUL characters in any string.

    NaN and infinities, which are not JSON, and numbers beyond a double are refused as not JSON. Nothing is
    built of a text with more levels or values. Raises TooLarge `body_too_many_values`, and BadRequest with
    the codes body_not_json, body_too_deep and invalid_value.
    """
    match judge(data, DEEPEST, max_values):
        case Verdict.TOO_DEEP:
            message = f"The body nests deeper than {DEEPEST} levels."
            raise BadRequest(message, code="body_too_deep", field="body")
        case Verdict.TOO_MANY_VALUES:
            message = f"The body has more than {max_values} JSON values."
            raise TooLarge(message, code="body_too_many_values", field="body")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise _not_json("The body is not JSON.") from None
    if not isinstance(value, dict):
        raise _not_json("The body is not a JSON object.")
    if b"\\u0000" in data and _has_nul(value):
        raise BadRequest("The body has a NUL character in a string.", field="body")
    return value


def _not_json(message: str) -> BadRequest:
    return BadRequest(message, code="body_not_json", field="body")


def _has_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any("\0" in key or _has_nul(item) for key, item in value.items())
        case list():
            return any(map(_has_nul, value))
        case _:
            return False


def read_query(request: Request, repeated: frozenset[str] = frozenset()) -> dict[str, str | list[str]]:
    """The query string's parameters, as lists those that may be `repeated`.

    Raises BadRequest for another one given twice, and for a NUL character.
    """
    found: dict[str, str | list[str]] = {}
    if not request.query_string:
        return found
    for name, values in request.args.lists():
        if len(values) > 1 and name not in repeated:
            raise BadRequest(f"{name[:255]}: given more than once.", field=name[:255])
        if any("\0" in text for text in (name, *values)):
            raise BadRequest("The query string has a NUL character.", field="query")
        found[name] = list(values) if name in repeated else values[0]
    return found


def fingerprint(value: Mapping[str, Any]) -> str:
    """A hash of a body's content, the same whatever the order of its keys; 64 hex digits."""
    return hashlib.sha256(orjson.dumps(dict(value), option=orjson.OPT_SORT_KEYS)).hexdigest()
