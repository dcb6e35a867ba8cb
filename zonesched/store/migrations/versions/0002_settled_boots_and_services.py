"""Add times of settled boots, kinds and heartbeat counts of services, failed builds, and agents' excess."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("reservations", sa.Column("settled_at", sa.Float(), nullable=False, server_default="0"))
    for column in (
        sa.Column("binary", sa.String(64), nullable=False, server_default="zonesched-compute"),
        sa.Column("topic", sa.String(64), nullable=False, server_default="compute"),
        sa.Column("report_count", sa.BigInteger(), nullable=False, server_default="0"),
    ):
        op.add_column("services", column)
    op.add_column(
        "inventories", sa.Column("agent_difference", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("instances", sa.Column("failed_builds", sa.Integer(), nullable=False, server_default="0"))
