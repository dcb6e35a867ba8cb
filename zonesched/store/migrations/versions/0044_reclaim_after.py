"""Note for how long a deleted server may be restored: the clock may be set back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    op.add_column(
        "instance_states", sa.Column("reclaim_after", sa.Float(), nullable=False, server_default="0")
    )
