"""Keep what a recovery hears of the states of instances."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.add_column("found_instances", sa.Column("observed", sa.Text))
    for name in ("moves_begun", "moves_ended"):
        op.add_column("found_instances", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    op.add_column("found_instances", sa.Column("given_back", sa.Text))
    op.execute("DELETE FROM named_instances WHERE caller_id IS NULL")
    with op.batch_alter_table("named_instances") as table:
        table.alter_column("caller_id", existing_type=sa.Uuid(as_uuid=False), nullable=False)
