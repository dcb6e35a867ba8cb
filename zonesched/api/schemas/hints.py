"""Scheduler hints: the types of those that are known; what is not known is kept as it came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from zonesched.api.schemas.fields import MOST_ITEMS, FreeJson, Name, Schema, refusal
from zonesched.errors import ZoneschedError
from zonesched.model.request_spec import Policy

PLACE_HINTS = ("force_hosts", "force_nodes", "ignore_hosts", "build_near_host_ip", "cidr")
"""Hints that name hosts or addresses, which no request from outside may choose by."""

_CONSUMED = {"group_policy", "query"}


def _json_text(text: str) -> str:
    try:
        query = orjson.loads(text)
    except orjson.JSONDecodeError:
        query = None
    if not isinstance(query, list):
        raise refusal("invalid_value", 'must be the text of a JSON list such as [">=", "$free_ram_mb", 1024]')
    return text


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


_FREE_JSON = TypeAdapter(FreeJson)
QueryText = Annotated[str, Field(max_length=16_384), AfterValidator(_json_text)]
Uuids = Annotated[list[Name], Field(max_length=MOST_ITEMS), BeforeValidator(_one_or_many)]


class SchedulerHints(Schema):
    """Hints beside `server`: known ones are checked, others are kept; 64 KiB of JSON in all."""

    model_config = ConfigDict(extra="allow")

    group: Name = ""
    group_policy: Literal["", "affinity"] = ""
    query: QueryText = ""
    same_host: Uuids = Field(default_factory=list)
    different_host: Uuids = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        return _FREE_JSON.validate_python(value) if isinstance(value, dict) else value

    def policy(self) -> Policy:
        return Policy.AFFINITY if self.group_policy == "affinity" else Policy.EACH

    def kept(self) -> Mapping[str, Any]:
        """What goes to filters as hints: all but what has a field of its own in the request spec."""
        return self.model_dump(exclude_unset=True, exclude=_CONSUMED)

    def refuse_places(self, error: type[ZoneschedError], field: str) -> None:
        """Raises `error` for a hint that names hosts or addresses."""
        for name in PLACE_HINTS:
            if name in (self.model_extra or {}):
                raise error(
                    f"{field}.{name}: hosts and addresses cannot be chosen.",
                    code="hint_refused",
                    field=f"{field}.{name}",
                )
