"""Keep the uuid that a parent gave an instance where another caller's instance has it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "aliases",
        sa.Column("caller_id", sa.String(36), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_uuid"],
            ["instances.uuid"],
            name="fk_aliases_instance_uuid",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("caller_id", "uuid", name="pk_aliases"),
        sa.UniqueConstraint("instance_uuid", name="uq_aliases_instance_uuid"),
    )
