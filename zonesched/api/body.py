"""Reading a request's body and query string: bounded first, parsed then, and nothing of it believed yet."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from flask import Request

from zonesched.errors import BadRequest, TooLarge

DEEPEST = 32
JSON_TYPE = "application/json"

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def read_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """The JSON object that a request carries.

    Raises TooLarge above `max_bytes`, BadRequest with the codes body_not_json, body_too_deep, invalid_value.
    """
    if request.mimetype != JSON_TYPE:
        raise BadRequest(f"Content-Type must be {JSON_TYPE}.", code="body_not_json", field="Content-Type")
    return parse_object(_read(request, max_bytes))


def _read(request: Request, max_bytes: int) -> bytes:
    if (request.content_length or 0) > max_bytes:
        raise _too_large(max_bytes)
    data = request.stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The body is larger than {max_bytes} bytes.", field="body")


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`, at most 32 levels deep, without NUL characters in any string.

    NaN and infinities, which are not JSON, and numbers beyond a double are refused as not JSON.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise _too_deep() if _nests_deep(data) else _not_json("The body is not JSON.") from None
    if not isinstance(value, dict):
        raise _not_json("The body is not a JSON object.")
    _check_strings_and_depth(value, looks_for_nul=b"\\u0000" in data)
    return value


def _not_json(message: str) -> BadRequest:
    return BadRequest(message, code="body_not_json", field="body")


def _too_deep() -> BadRequest:
    return BadRequest(f"The body nests deeper than {DEEPEST} levels.", code="body_too_deep", field="body")


def _nests_deep(data: bytes) -> bool:
    """Whether text that the parser gave up on opens more brackets inside each other than are allowed."""
    depth = 0
    for token in _TOKENS.finditer(data):
        first = token.group()[:1]
        depth += (first in (b"[", b"{")) - (first in (b"]", b"}"))
        if depth > DEEPEST:
            return True
    return False


def _check_strings_and_depth(value: dict[str, Any], looks_for_nul: bool) -> None:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        if looks_for_nul and any("\0" in text for text in _strings(level)):
            raise BadRequest("The body has a NUL character in a string.", field="body")
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return
    raise _too_deep()


def _strings(level: Iterable[Any]) -> Iterable[str]:
    for container in level:
        items = (*container, *container.values()) if isinstance(container, dict) else container
        yield from (item for item in items if isinstance(item, str))


def read_query(request: Request) -> dict[str, str]:
    """The query string's parameters. Raises BadRequest for one given twice, or with a NUL character."""
    found: dict[str, str] = {}
    for name, values in request.args.lists():
        if len(values) > 1:
            raise BadRequest(f"{name[:255]}: given more than once.", field=name[:255])
        if "\0" in name or "\0" in values[0]:
            raise BadRequest("The query string has a NUL character.", field="query")
        found[name] = values[0]
    return found


def fingerprint(value: Mapping[str, Any]) -> str:
    """A hash of a body's content, the same whatever the order of its keys; 64 hex digits."""
    return hashlib.sha256(orjson.dumps(dict(value), option=orjson.OPT_SORT_KEYS)).hexdigest()
