"""Record which builds agents have fetched, so that builds never fetched can be placed again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column(
        "placements", sa.Column("is_fetched", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    # An agent may have any of these.
    op.execute("UPDATE placements SET is_fetched = true WHERE kind = 'host' AND state = 'confirmed'")
