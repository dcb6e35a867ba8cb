"""Keep when the agent of a machine that has started again last asked for its place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    op.add_column("services", sa.Column("returned_at", sa.Float(), nullable=False, server_default="0"))
