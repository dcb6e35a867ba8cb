"""Note idle holds of parents, and count their instances, holds and tombstones from indexes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "idle_holds",
        sa.Column("caller_id", sa.String(36), nullable=False),
        sa.Column("zone_seconds", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("caller_id", name="pk_idle_holds"),
    )
    op.create_index(
        "ix_inbound_builds_tombstones",
        "inbound_builds",
        ["caller_id", "retained_until"],
        sqlite_where=sa.text("number = 0"),
        postgresql_where=sa.text("number = 0"),
    )
    for name, table, columns in (
        ("ix_instances_changes", "instances", ["caller_id", "changed_seq", "status"]),
        ("ix_placements_state", "placements", ["state", "next_call_at", "caller_id"]),
    ):
        op.drop_index(name, table)
        op.create_index(name, table, columns)
