"""Bodies and queries of migrations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from zonesched.api.schemas.fields import LenientQuery, Name, QueryInt, Schema
from zonesched.model.views import MigrationQuery


class MigrationsQuery(LenientQuery):
    """Filters of the list of migrations; `host` is that of either end."""

    status: Name | None = None
    instance_uuid: Name | None = None
    host: Name | None = None
    source_compute: Name | None = None
    limit: Annotated[QueryInt, Field(ge=1, le=1000)] = 1000

    def to_query(self) -> MigrationQuery:
        return MigrationQuery(
            status=self.status or "",
            server_uuid=self.instance_uuid or "",
            host=self.host or "",
            source_host=self.source_compute or "",
            limit=self.limit,
        )


class MigrationActionBody(Schema):
    """Completion of a live migration."""

    force_complete: None
