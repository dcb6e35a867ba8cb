"""Keep the id of the agent that each service belongs to, so that a second agent of its name is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.add_column("services", sa.Column("agent_id", sa.String(36), nullable=False, server_default=""))
