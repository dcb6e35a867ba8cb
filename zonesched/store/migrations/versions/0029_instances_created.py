"""Read a page of the instances of all projects by an index."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.create_index("ix_instances_created", "instances", ["created_at", "uuid"])
