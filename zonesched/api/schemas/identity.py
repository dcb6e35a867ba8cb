"""Queries of /identity."""

from __future__ import annotations

from zonesched.api.schemas.fields import LenientQuery, Text


class NamedQuery(LenientQuery):
    """The project or user to list; without a name, all."""

    name: Text = ""
