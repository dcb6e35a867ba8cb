"""Bodies and queries of migrations."""

from __future__ import annotations

from pydantic import Field

from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    LenientQuery,
    PageLimit,
    Schema,
    Text,
)
from zonesched.api.schemas.moments import Moment, since_s, until_s
from zonesched.model.migrations import MigrationQuery


class MigrationsQuery(LenientQuery):
    """Filters and page of the list of migrations; `host` is that of either end."""

    status: Text = ""
    migration_type: Text = ""
    instance_uuid: Text = ""
    user_id: Text = ""
    project_id: Text = ""
    host: Text = ""
    source_compute: Text = ""
    changes_since: Moment = Field(default="", alias="changes-since")
    changes_before: Moment = Field(default="", alias="changes-before")
    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""

    def to_query(self) -> MigrationQuery:
        return MigrationQuery(
            status=self.status,
            kind=self.migration_type,
            server_uuid=self.instance_uuid,
            user_id=self.user_id,
            project_id=self.project_id,
            host=self.host,
            source_host=self.source_compute,
            changed_since=since_s(self.changes_since),
            changed_before=until_s(self.changes_before),
            limit=self.limit,
            marker=self.marker,
        )


class MigrationActionBody(Schema):
    """Completion of a live migration."""

    force_complete: None
