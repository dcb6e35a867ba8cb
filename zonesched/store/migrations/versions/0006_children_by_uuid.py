"""Identify a child by its zone's uuid, so that no zone is a child twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    # Null until the child has answered.
    op.add_column("children", sa.Column("zone_uuid", sa.String(36)))
    op.create_index("ix_children_zone_uuid", "children", ["zone_uuid"], unique=True)
