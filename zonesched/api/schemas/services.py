"""Queries and bodies of /os-services."""

from __future__ import annotations

from typing import ClassVar, Literal

from zonesched.api.schemas.body_limit import SMALL, BodyLimit
from zonesched.api.schemas.fields import (
    WHOLE,
    LenientQuery,
    Name,
    Schema,
    SpelledBool,
    Text,
    WholeOrPage,
)
from zonesched.model.views import Binary, ServiceChange


class ServicesQuery(LenientQuery):
    """The services to list; without a parameter, all. `marker`: the last one of the page before."""

    host: Text = ""
    binary: Text = ""
    limit: WholeOrPage = WHOLE
    marker: Text = ""


class ServiceBody(Schema):
    """Fields of a service to change; those left out stay."""

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: Name | None = None
    forced_down: SpelledBool | None = None

    def to_change(self) -> ServiceChange:
        is_enabled = None if self.status is None else self.status == "enabled"
        return ServiceChange(is_enabled, self.disabled_reason, self.forced_down)


class Evacuation(Schema):
    """`fenced`: the operator says that nothing can run on the host any more."""

    fenced: bool = False


class ServiceActionBody(Schema):
    """What to do with all instances of a host."""

    body_limit: ClassVar[BodyLimit] = SMALL

    evacuate: Evacuation


class NamedServiceBody(Schema):
    """A service by the name of its host, or of its agent."""

    host: Name
    binary: Name = Binary.HOST.value


class DisableBody(NamedServiceBody):
    disabled_reason: Name


class ForceDownBody(NamedServiceBody):
    forced_down: SpelledBool
