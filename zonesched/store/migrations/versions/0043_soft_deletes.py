"""Note until when a deleted server may be restored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    for name in ("reclaim_at", "reclaim_after"):
        op.add_column("instance_states", sa.Column(name, sa.Float(), nullable=False, server_default="0"))
    waits = sa.text("reclaim_at > 0")
    op.create_index(
        "ix_instance_states_reclaim",
        "instance_states",
        ["reclaim_at"],
        sqlite_where=waits,
        postgresql_where=waits,
    )
