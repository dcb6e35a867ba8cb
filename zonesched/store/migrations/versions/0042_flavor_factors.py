"""Keep the rxtx_factor of a flavor."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.add_column("flavors", sa.Column("rxtx_factor", sa.Float(), nullable=False, server_default="1"))
