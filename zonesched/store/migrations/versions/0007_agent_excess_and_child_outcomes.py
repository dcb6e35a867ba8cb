"""Rename an agent's difference to excess, and the outcomes of children in the stored decision traces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

OUTCOMES = {"silent": "unreachable", "not_fitting": "ineligible"}


def upgrade() -> None:
    op.alter_column(
        "inventories",
        "agent_difference",
        new_column_name="agent_excess",
        existing_type=sa.BigInteger(),
        existing_nullable=False,
        existing_server_default="0",
    )
    boots = sa.table("reservations", sa.column("why", sa.Text))
    for old, new in OUTCOMES.items():
        before, after = f'"outcome":"{old}"', f'"outcome":"{new}"'
        op.execute(
            sa.update(boots)
            .where(boots.c.why.contains(before, autoescape=True))
            .values(why=sa.func.replace(boots.c.why, before, after))
        )
