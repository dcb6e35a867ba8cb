"""JSON text of a mapping in a column: the same text for the same content, so that rows can be compared."""

from __future__ import annotations

from collections.abc import Mapping

import orjson


def sorted_json(mapping: Mapping[str, object]) -> str:
    """Return a mapping as JSON text, with its keys in order.

    >>> sorted_json({"b": 1, "a": "x"})
    '{"a":"x","b":1}'
    """
    return orjson.dumps(dict(mapping), option=orjson.OPT_SORT_KEYS).decode()
