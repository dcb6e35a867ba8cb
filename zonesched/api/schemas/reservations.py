"""The queries of /reservations; confirm and cancel name attempts as in schemas/servers.py."""

from __future__ import annotations

from zonesched.api.schemas.fields import Name, Schema, Text


class ChangesQuery(Schema):
    """`cursor`: what the last answer gave; without one, from the beginning."""

    cursor: Text = ""


class WhyQuery(Schema):
    """`host`: name or id of a host of this zone."""

    host: Name
