"""Tell a zone whose rows were restored from a copy, and keep what its neighbours have told it since."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.add_column("identity", sa.Column("incarnation", sa.String(32), nullable=False, server_default=""))
    op.create_table(
        "unheard",
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id", name="pk_unheard"),
    )
    op.create_table(
        "found_instances",
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("holder_id", sa.String(36), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("host_id", sa.String(36)),
        sa.Column("status", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("kind", "holder_id", "uuid", "number", name="pk_found_instances"),
    )
    op.create_index("ix_found_instances_uuid", "found_instances", ["uuid"])
    op.create_table(
        "named_instances",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("caller_id", sa.String(36)),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("reservation_id", sa.String(36), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("is_disputed", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_named_instances"),
    )
