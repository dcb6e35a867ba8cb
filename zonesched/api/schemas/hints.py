"""Scheduler hints: known ones have a type, unknown ones are passed through."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from zonesched.api.schemas.fields import MAX_ITEMS, FreeJson, Schema, Text, Uuid, refusal
from zonesched.errors import BadRequest, ZoneschedError
from zonesched.model.controls import CONTROLS
from zonesched.model.own_zone import NAME_HINTS, OWN_HINTS
from zonesched.model.request_spec import Policy

UNSUPPORTED_HINTS = ("target_cell", "different_cell")
"""OpenStack's hints that nothing here can honour."""

MAX_HOSTS = 1000

_NAME = re.compile(rf"[^{CONTROLS}]{{1,255}}\Z")

_CONSUMED = {"group", "group_policy", "query"}


def _json_text(text: str) -> str:
    try:
        query = orjson.loads(text)
    except orjson.JSONDecodeError:
        query = None
    if not isinstance(query, list):
        raise refusal(
            "invalid_value", 'must be a JSON list such as [">=", "$free_ram_mb", 1024], or its text'
        )
    return text


def _as_text(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_FREE_JSON = TypeAdapter(FreeJson)
QueryText = Annotated[str, Field(max_length=16_384), AfterValidator(_json_text)]
Query = Annotated[QueryText, BeforeValidator(_as_text, json_schema_input_type=str | list[Any])]
"""A query of JSONFilter: a JSON list, or its text."""

Instances = Annotated[
    list[Uuid],
    Field(max_length=MAX_ITEMS),
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
]
"""One uuid, or a list of at most 128."""


class SchedulerHints(Schema):
    """Hints beside `server`: known ones are checked, others are passed to filters; 64 KiB of JSON in all."""

    model_config = ConfigDict(extra="allow")

    group: Text = ""
    group_policy: Literal["", "affinity"] = ""
    query: Query = ""
    same_host: Instances = Field(default_factory=list)
    different_host: Instances = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        return _FREE_JSON.validate_python(value) if isinstance(value, dict) else value

    def policy(self) -> Policy:
        return Policy.AFFINITY if self.group_policy == "affinity" else Policy.EACH

    def passthrough(self) -> Mapping[str, Any]:
        """Return the hints for filters: all but those with a field of their own in the request spec."""
        return self.model_dump(exclude_unset=True, exclude=_CONSUMED) if self.model_fields_set else {}

    def refuse_unheeded(self, error: type[ZoneschedError], field: str, *, by_admin: bool = False) -> None:
        """Raises `error` for a hint of hosts or addresses, BadRequest for one that nothing honours.

        This zone's own admins may name its hosts: of theirs, the form is looked at.
        """
        given = self.model_extra or {}
        for name in UNSUPPORTED_HINTS:
            if name in given:
                raise BadRequest(
                    f"{field}.{name}: this hint is not supported.",
                    code="hint_unsupported",
                    field=f"{field}.{name}",
                )
        for name in OWN_HINTS:
            if name in given and not by_admin:
                raise error(
                    f"{field}.{name}: hosts and addresses cannot be chosen.",
                    code="hint_refused",
                    field=f"{field}.{name}",
                )
        for name in NAME_HINTS:
            if name in given and not _are_names(given[name]):
                raise BadRequest(
                    f"{field}.{name}: must be a host's name, or a list of 1 to {MAX_HOSTS} names.",
                    code="hint_invalid",
                    field=f"{field}.{name}",
                )


@cache
def no_hints() -> SchedulerHints:
    """Return the hints of a boot without any; to validate them takes longer than the rest of its body."""
    return SchedulerHints()


def _are_names(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return 0 < len(names) <= MAX_HOSTS and all(isinstance(name, str) and _NAME.match(name) for name in names)
