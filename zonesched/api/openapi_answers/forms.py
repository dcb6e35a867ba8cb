"""Forms of values in answers, as JSON schemas; an object has no members but those that its form names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Form = Mapping[str, Any]

TEXT: Form = {"type": "string"}
WHOLE: Form = {"type": "integer"}
NUMBER: Form = {"type": "number"}
TRUTH: Form = {"type": "boolean"}
NULL: Form = {"type": "null"}
UUID: Form = {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
TIME: Form = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
"""UTC, to the second."""
ZONELESS: Form = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$"}
"""UTC, to the microsecond and without its offset."""
ANY_OBJECT: Form = {"type": "object"}
"""An object whose members are somebody else's: an agent's, an operator's, a user's."""


def object_of(members: Mapping[str, Form], optional: Mapping[str, Form] | None = None) -> Form:
    """Return the form of an object that always has these members, and may have the optional ones."""
    return {
        "type": "object",
        "required": list(members),
        "properties": {**members, **(optional or {})},
        "additionalProperties": False,
    }


def list_of(form: Form) -> Form:
    return {"type": "array", "items": form}


def map_of(form: Form) -> Form:
    """Return the form of an object with any names."""
    return {"type": "object", "additionalProperties": form}


def or_null(form: Form) -> Form:
    return {"anyOf": [form, NULL]}


def one_of(*words: str) -> Form:
    return {"type": "string", "enum": list(words)}


def either(*forms: Form) -> Form:
    return {"anyOf": list(forms)}


LINK = object_of({"rel": TEXT, "href": TEXT}, {"type": TEXT})
LINKS = list_of(LINK)
