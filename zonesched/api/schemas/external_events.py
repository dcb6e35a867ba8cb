"""Bodies of /os-server-external-events."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zonesched.api.schemas.fields import Schema, Text, Uuid

MAX_EVENTS = 100


class ExternalEvent(Schema):
    """An event about a server's networks; `tag` is a port's id."""

    name: Literal["network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"]
    server_uuid: Uuid
    tag: Text = ""
    status: Literal["completed", "failed", "in-progress"] = "completed"


class ExternalEventsBody(Schema):
    """Events of another service."""

    events: list[ExternalEvent] = Field(min_length=1, max_length=MAX_EVENTS)
