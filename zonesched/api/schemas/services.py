"""Queries and bodies of /os-services."""

from __future__ import annotations

from typing import Literal

from zonesched.api.schemas.fields import Name, Schema, Text
from zonesched.model.views import Binary, ServiceChange


class ServicesQuery(Schema):
    """The services to list; without a parameter, all."""

    host: Text = ""
    binary: Text = ""


class ServiceBody(Schema):
    """Fields of a service to change; those left out stay."""

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: Name | None = None
    forced_down: bool | None = None

    def to_change(self) -> ServiceChange:
        is_enabled = None if self.status is None else self.status == "enabled"
        return ServiceChange(is_enabled, self.disabled_reason, self.forced_down)


class NamedServiceBody(Schema):
    """A service by the name of its host, or of its agent."""

    host: Name
    binary: Name = Binary.HOST.value


class DisableBody(NamedServiceBody):
    disabled_reason: Name


class ForceDownBody(NamedServiceBody):
    forced_down: bool
