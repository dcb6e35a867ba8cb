"""Bodies and the query of /os-aggregates."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator, model_validator

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import (
    MAX_ITEMS,
    WHOLE,
    GivenName,
    LenientQuery,
    Name,
    Schema,
    Text,
    WholeOrPage,
    ZoneName,
    refusal,
)
from zonesched.model.aggregate import AVAILABILITY_ZONE


class AggregatesQuery(LenientQuery):
    """The page of aggregates to list; without a parameter, all. `marker`: the last one of the page before."""

    limit: WholeOrPage = WHOLE
    marker: Text = ""


class NewAggregate(Schema):
    """A name, and the availability zone of the hosts; null or left out: none."""

    name: GivenName
    availability_zone: ZoneName | None = None


class NewAggregateBody(Schema):
    aggregate: NewAggregate


class AggregateChange(Schema):
    """Fields to change; those left out stay, an availability zone of null removes it."""

    name: GivenName = ""
    availability_zone: ZoneName | None = None

    @model_validator(mode="after")
    def _names_something(self) -> AggregateChange:
        if not self.model_fields_set:
            raise refusal("invalid_value", "must have name or availability_zone")
        return self


class ChangeAggregateBody(Schema):
    aggregate: AggregateChange


class HostMember(Schema):
    """A host of this zone by its name."""

    host: Name


class MetadataChange(Schema):
    """Metadata to add, to change or, with null, to remove; the others stay."""

    metadata: Annotated[dict[Name, Text | None], Field(max_length=MAX_ITEMS)]

    @field_validator("metadata")
    @classmethod
    def _names_a_zone(cls, metadata: dict[str, str | None]) -> dict[str, str | None]:
        zone = metadata.get(AVAILABILITY_ZONE)
        if zone is not None and (not zone or ":" in zone or zone != zone.strip()):
            message = f"{AVAILABILITY_ZONE} must be a name without colon and outer spaces, or null"
            raise refusal("invalid_value", message)
        return metadata


class AggregateActionBody(Schema):
    """One of three actions."""

    body_limit: ClassVar[BodyLimit] = WITH_MAP

    add_host: HostMember | None = None
    remove_host: HostMember | None = None
    set_metadata: MetadataChange | None = None

    @model_validator(mode="after")
    def _is_one(self) -> AggregateActionBody:
        if sum(action is not None for action in (self.add_host, self.remove_host, self.set_metadata)) != 1:
            raise refusal("invalid_value", "must have one of add_host, remove_host and set_metadata")
        return self
