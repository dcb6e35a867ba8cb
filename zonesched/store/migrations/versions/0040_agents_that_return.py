"""Keep when an agent that has started again asks for its place, and the flavors that agents tell."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    op.add_column("services", sa.Column("returned_at", sa.Float(), nullable=False, server_default="0"))
    op.add_column("found_instances", sa.Column("flavor", sa.Text()))
