"""Bodies of /zones, except select and boot."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from zonesched.api.schemas.body_limit import SMALL, BodyLimit
from zonesched.api.schemas.fields import Finite, Name, QueryBool, Schema
from zonesched.model.views import ChildChange, ChildForm

Url = Annotated[str, Field(min_length=1, max_length=2048)]
Secret = Annotated[str, Field(min_length=1, max_length=1024)]
Offset = Annotated[Finite, Field(ge=-(2**53), le=2**53)]
MAX_LEAVING = 100
Factor = Annotated[Finite, Field(gt=0, le=2**53)]


class NewZone(Schema):
    """A child zone: its URL, and this zone's credentials there, which are never shown again."""

    name: Name
    api_url: Url
    username: Name
    password: Secret = Field(repr=False)
    weight_offset: Offset = 0.0
    weight_scale: Factor = 1.0


class AddZoneBody(Schema):
    zone: NewZone

    def to_form(self) -> ChildForm:
        return ChildForm(**self.zone.model_dump())


class ZoneChange(Schema):
    """Fields to change; those left out stay."""

    name: Name = ""
    api_url: Url = ""
    username: Name = ""
    password: Secret = Field(default="", repr=False)
    weight_offset: Offset = Field(default_factory=float)
    weight_scale: Factor = Field(default_factory=float)
    state: Literal["enabled", "disabled"] = "enabled"


class ChangeZoneBody(Schema):
    zone: ZoneChange

    def to_change(self) -> ChildChange:
        given = self.zone.model_dump(exclude_unset=True)
        enabled = {"is_enabled": given.pop("state") == "enabled"} if "state" in given else {}
        return ChildChange(**given, **enabled)


class Drain(Schema):
    """`count`: how many instances may be leaving, or on their way, at a time.

    `retry`: those that have left and found no place are placed again.
    """

    count: Annotated[int, Field(ge=0, le=MAX_LEAVING)]
    retry: bool = True


class ZoneActionBody(Schema):
    """Action on the instances in a child zone: let them leave."""

    body_limit: ClassVar[BodyLimit] = SMALL

    drain: Drain


class RemoveQuery(Schema):
    """`force`: remove the child although instances are there; they become ERROR `zone_lost`."""

    force: QueryBool = False
