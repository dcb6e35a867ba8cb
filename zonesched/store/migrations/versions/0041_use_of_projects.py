"""Sum up the use of a project in two indexes, without reading its instances."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"

OF_PROJECT, SIZES = ["caller_id", "project_id"], ["vcpus", "ram_mb"]
HAS_ENDED = sa.text("status IN ('DELETED', 'ERROR')")


def upgrade() -> None:
    op.drop_index("ix_instances_listing", "instances")
    op.create_index("ix_instances_listing", "instances", [*OF_PROJECT, "created_at", "uuid", *SIZES])
    op.create_index(
        "ix_instances_ended",
        "instances",
        [*OF_PROJECT, *SIZES, "status"],
        sqlite_where=HAS_ENDED,
        postgresql_where=HAS_ENDED,
    )
