"""Count the registrations of each service, so that one which comes late is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.add_column("services", sa.Column("registrations", sa.BigInteger, nullable=False, server_default="0"))
