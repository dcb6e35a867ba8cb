"""Queries of /identity."""

from __future__ import annotations

from zonesched.api.schemas.fields import LenientQuery, Text


class ProjectsQuery(LenientQuery):
    """The project to list; without a name, all."""

    name: Text = ""
