"""Add quota overrides of projects and parents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "own_limits",
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("most", sa.BigInteger(), nullable=False),
    )
