"""Keep where the agent of each service runs, so that one with a copy of its state folder is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    op.add_column("services", sa.Column("agent_home", sa.String(36), nullable=False, server_default=""))
