"""Bodies of /limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from zonesched.api.schemas.fields import Amount, LenientQuery, Schema, Text, refusal

Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Percent = Annotated[int, Field(ge=1, le=100)]


class _QuotaOverrides(Schema):
    @model_validator(mode="before")
    @classmethod
    def _knows_all(cls, value: Any) -> Any:
        unknown = [key for key in value if key not in cls.model_fields] if isinstance(value, dict) else []
        if unknown:
            error = refusal(
                "unknown_field", f"there is no such limit. Accepted: {', '.join(cls.model_fields)}"
            )
            raise ValidationError.from_exception_data(
                cls.__name__, [{"type": error, "loc": (unknown[0],), "input": None}]
            )
        return value

    @model_validator(mode="after")
    def _names_something(self) -> _QuotaOverrides:
        if not self.model_fields_set:
            raise refusal("invalid_value", f"must have some of {', '.join(type(self).model_fields)}")
        return self

    def to_changes(self) -> Mapping[str, int | None]:
        return self.model_dump(include=self.model_fields_set)


class ProjectLimits(_QuotaOverrides):
    """Quota overrides of one project; null removes one, a field left out stays."""

    project_instances: Amount | None = None
    project_open_boots: Positive | None = None
    project_boots_per_minute: Positive | None = None
    project_dry_runs_per_minute: Positive | None = None


class ParentLimits(_QuotaOverrides):
    """Quota overrides of one parent; null removes one, a field left out stays."""

    parent_instances: Amount | None = None
    parent_holds: Positive | None = None
    parent_holds_per_minute: Positive | None = None
    parent_idle_percent: Percent | None = None
    parent_tombstones: Positive | None = None
    parent_selects_per_minute: Positive | None = None
    parent_selects_per_hour: Positive | None = None
    parent_entries_per_minute: Positive | None = None


class ProjectLimitsBody(Schema):
    limits: ProjectLimits


class ParentLimitsBody(Schema):
    limits: ParentLimits


class LimitsQuery(LenientQuery):
    """The project whose limits an admin reads; without one, the caller's."""

    tenant_id: Text = ""
