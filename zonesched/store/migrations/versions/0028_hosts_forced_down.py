"""Find the hosts that are forced down by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_index(
        "ix_hosts_forced_down",
        "hosts",
        ["forced_down"],
        sqlite_where=sa.text("forced_down = 1"),
        postgresql_where=sa.text("forced_down"),
    )
