"""Validate unverified input: a value of its schema, or one BadRequest that names the field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from zonesched.api.schemas.fields import FORMS, MAX_INT, Limits, Schema
from zonesched.errors import BadRequest

S = TypeVar("S", bound=Schema)

LONGEST_FIELD = 255

NO_TEXT = "'', "
"""A text that some fields accept as well; it says the same as no field."""

_CODES = {
    "missing": "missing_field",
    "extra_forbidden": "unknown_field",
    "unknown_field": "unknown_field",
    "too_long": "too_long",
    "string_too_long": "too_long",
    "out_of_range": "out_of_range",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than": "out_of_range",
    "less_than_equal": "out_of_range",
    "finite_number": "out_of_range",
}


def validate(schema: type[S], unverified: Any, limits: Limits) -> S:
    """Return the input as a value of the schema.

    Raises BadRequest with one of the codes missing_field, unknown_field, wrong_type, out_of_range, too_long,
    invalid_value.
    """
    try:
        return schema.model_validate(unverified, context=limits)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _refusal(first, unverified) from None


def _refusal(error: ErrorDetails, unverified: Any) -> BadRequest:
    field = _field(error["loc"], unverified)
    kind = error["type"]
    if kind == "int_type" and _is_large_integer(error["input"]):
        words = f"must be an integer, and its absolute value at most {MAX_INT}"
        return BadRequest(f"{field}: {words}", code="out_of_range", field=field)
    code = _CODES.get(kind, "wrong_type" if kind.endswith("_type") else "invalid_value")
    return BadRequest(f"{field}: {_words(error)}", code=code, field=field)


def _is_large_integer(given: object) -> bool:
    """Tell whether an integer is beyond what any field takes: it arrives as a float, or as a text."""
    match given:
        case float():
            return given.is_integer() and abs(given) > MAX_INT
        case str():
            return re.fullmatch("-?[0-9]+", given) is not None and abs(float(given)) > MAX_INT
        case _:
            return False


def _words(error: ErrorDetails) -> str:
    """Describe the error without names and patterns of the program."""
    match error["type"]:
        case "string_pattern_mismatch":
            return FORMS.get(error["ctx"]["pattern"], error["msg"])
        case "extra_forbidden":
            return "this call takes no such member"
        case "model_type" | "dict_type":
            return "must be an object"
        case "literal_error":
            return f"must be {error['ctx']['expected'].removeprefix(NO_TEXT)}"
        case "none_required":
            return "must be null"
        case _:
            return error["msg"]


def _field(loc: Sequence[int | str], unverified: Any) -> str:
    """Return the path of the field, such as server.builds.0.uuid, without the names of union members."""
    parts: list[str] = []
    here = unverified
    for position, part in enumerate(loc):
        is_last = position == len(loc) - 1
        match here:
            case dict() if part in here:
                here = here[part]
            case list() if isinstance(part, int) and part < len(here):
                here = here[part]
            case dict() if is_last:
                here = None
            case _:
                continue
        parts.append(str(part))
    return ".".join(parts)[:LONGEST_FIELD] or "body"
