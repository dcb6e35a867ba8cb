"""Add disabled children."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("children", sa.Column("is_enabled", sa.Boolean(), nullable=False, server_default=sa.true()))
