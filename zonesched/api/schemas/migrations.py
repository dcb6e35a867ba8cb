"""Bodies and queries of migrations."""

from __future__ import annotations

from zonesched.api.schemas.fields import LenientQuery, Schema


class MigrationsQuery(LenientQuery):
    """Filters of an empty list change nothing."""


class MigrationActionBody(Schema):
    """Completion of a live migration."""

    force_complete: None
