"""Queries and bodies of /os-hosts."""

from __future__ import annotations

from typing import Literal

from zonesched.api.schemas.fields import LenientQuery, Schema, Text


class OsHostsQuery(LenientQuery):
    """The availability zone whose hosts to list; without one, all."""

    zone: Text = ""


class OsHostBody(Schema):
    """A change of a host."""

    status: Literal["enable", "disable"] | None = None
    maintenance_mode: Literal["enable", "disable"] | None = None
