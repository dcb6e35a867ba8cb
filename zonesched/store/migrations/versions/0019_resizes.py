"""Add resizes: their counts and flavors, and moves that end reverted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0021"

COUNTS = [
    f"{prefix}resizes_{count}" for prefix in ("", "observed_") for count in ("begun", "confirmed", "reverted")
]


def upgrade() -> None:
    for name in COUNTS:
        op.add_column("instance_states", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    for name in ("desired_flavor", "flavor"):
        op.add_column("instance_states", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    op.add_column("instance_states", sa.Column("resized_at", sa.Float(), nullable=False, server_default="0"))
    waits = sa.text("resized_at > 0")
    op.create_index(
        "ix_instance_states_resized",
        "instance_states",
        ["resized_at"],
        sqlite_where=waits,
        postgresql_where=waits,
    )
    op.add_column("moves", sa.Column("generation", sa.Integer(), nullable=False, server_default="0"))
    for name in ("uq_moves_living", "ix_moves_due"):
        op.drop_index(name, "moves")
    living = sa.text("state NOT IN ('done', 'failed', 'reverted')")
    op.create_index(
        "uq_moves_living", "moves", ["uuid"], unique=True, sqlite_where=living, postgresql_where=living
    )
    op.create_index("ix_moves_due", "moves", ["next_step_at"], sqlite_where=living, postgresql_where=living)
