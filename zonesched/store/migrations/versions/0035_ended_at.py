"""Keep when an instance ended, which a change of its name or its deletion does not change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.add_column("instances", sa.Column("ended_at", sa.Float, nullable=False, server_default="0"))
    op.execute("UPDATE instances SET ended_at = updated_at WHERE status IN ('ERROR', 'DELETED')")
