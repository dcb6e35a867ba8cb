"""Add the promises of agents that fence."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "fencing_promises",
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("fence_after_s", sa.Float(), nullable=False),
        sa.Column("heartbeat", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("service_id", name="pk_fencing_promises"),
    )
