"""Keep key pairs, flavors that are not public, and the sizes that an image needs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("flavors", sa.Column("ephemeral_gb", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("flavors", sa.Column("swap_mb", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("flavors", sa.Column("is_public", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("flavors", sa.Column("description", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "flavor_projects",
        sa.Column("flavor_id", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("flavor_id", "project_id", name="pk_flavor_projects"),
    )
    op.add_column("images", sa.Column("min_disk_gb", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("images", sa.Column("min_ram_mb", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("images", sa.Column("created_at", sa.Float(), nullable=False, server_default="0"))
    op.create_table(
        "keypairs",
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name", name="pk_keypairs"),
    )
