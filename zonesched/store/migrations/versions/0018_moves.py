"""Add moves of instances between hosts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0016"


def upgrade() -> None:
    for name in ("moves_begun", "moves_ended"):
        op.add_column("instance_states", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "moves",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("from_number", sa.Integer(), nullable=False),
        sa.Column("to_number", sa.Integer(), nullable=False),
        sa.Column("source_host", sa.String(255), nullable=False),
        sa.Column("dest_host", sa.String(255), nullable=False),
        sa.Column("asked_host", sa.String(255), nullable=False),
        sa.Column("action", sa.Integer(), nullable=False),
        sa.Column("selects", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("next_step_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["uuid"], ["instances.uuid"], name="fk_moves_uuid"),
        sa.PrimaryKeyConstraint("id", name="pk_moves"),
    )
    op.create_index("ix_moves_uuid", "moves", ["uuid"])
    living = sa.text("state NOT IN ('done', 'failed')")
    op.create_index(
        "uq_moves_living", "moves", ["uuid"], unique=True, sqlite_where=living, postgresql_where=living
    )
    op.create_index("ix_moves_due", "moves", ["next_step_at"], sqlite_where=living, postgresql_where=living)
