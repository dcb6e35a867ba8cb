"""Add the console outputs that callers wait for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "console_asks",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_console_asks"),
    )
    op.create_index("ix_console_asks_open", "console_asks", ["service_id", "state", "expires_at"])
    op.create_index("ix_console_asks_expires_at", "console_asks", ["expires_at"])
