"""Valid values of a schema of the API, from its JSON Schema: the subset that pydantic writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

MOST_ITEMS = 3
MOST_TEXT = 40

_free = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def values_of(schema: Mapping[str, Any]) -> SearchStrategy[Any]:
    """Values that the schema accepts, but for the rules that JSON Schema cannot say."""
    return _Schemas(schema.get("$defs", {})).values(schema)


class _Schemas:
    """The strategies of the named schemas of one document, made when they are asked for."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._made: dict[str, SearchStrategy[Any]] = {}

    def values(self, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        if "$ref" in schema:
            return self._of_name(schema["$ref"].rpartition("/")[2])
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return st.one_of([self.values(one) for one in schema[several]])
        match schema.get("type"):
            case "object":
                return self._objects(schema)
            case "array":
                least = schema.get("minItems", 0)
                most = max(least, min(schema.get("maxItems", MOST_ITEMS), MOST_ITEMS))
                return st.lists(self.values(schema.get("items", {})), min_size=least, max_size=most)
            case "string":
                return _texts(schema)
            case "integer":
                return st.integers(_low(schema, 0), _high(schema, 2**31 - 1))
            case "number":
                return st.floats(
                    _low(schema, -1e9), _high(schema, 1e9), exclude_min="exclusiveMinimum" in schema
                )
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case _:
                return _free

    def _of_name(self, name: str) -> SearchStrategy[Any]:
        if name not in self._made:
            self._made[name] = st.deferred(lambda: self.values(self._named[name]))
        return self._made[name]

    def _objects(self, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        fields = {name: self.values(one) for name, one in schema.get("properties", {}).items()}
        required = {name: fields.pop(name) for name in schema.get("required", ())}
        known = st.fixed_dictionaries(required, optional=fields)
        for pattern, one in schema.get("patternProperties", {}).items():
            return self._maps({"pattern": pattern, "minLength": 1}, one)
        more = schema.get("additionalProperties", True)
        if more is False or (fields or required):
            return known
        return self._maps(schema.get("propertyNames", {}), {} if more is True else more)

    def _maps(self, keys: Mapping[str, Any], inner: Mapping[str, Any]) -> SearchStrategy[Any]:
        return st.dictionaries(_texts(keys), self.values(inner), max_size=MOST_ITEMS)


def _texts(schema: Mapping[str, Any]) -> SearchStrategy[str]:
    least, most = schema.get("minLength", 0), min(schema.get("maxLength", MOST_TEXT), MOST_TEXT)
    pattern = schema.get("pattern", "")
    if not pattern or "\\x00" in pattern:
        letters = st.characters(exclude_categories=("Cs", "Cc"))
        return st.text(letters, min_size=least, max_size=max(least, most))
    return st.from_regex(pattern.replace("$", r"\Z"))


def _low(schema: Mapping[str, Any], otherwise: float) -> Any:
    return schema.get("minimum", schema.get("exclusiveMinimum", otherwise))


def _high(schema: Mapping[str, Any], otherwise: float) -> Any:
    return schema.get("maximum", schema.get("exclusiveMaximum", otherwise))
