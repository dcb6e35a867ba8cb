"""Read a page of boots, of a project or of all, by an index."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.create_index(
        "ix_reservations_listing", "reservations", ["caller_id", "project_id", "created_at", "id"]
    )
    op.create_index("ix_reservations_created", "reservations", ["created_at", "id"])
