"""Add desired states, actions and locks of instances."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "instance_states",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("power", sa.String(16), nullable=False),
        sa.Column("reboots", sa.Integer(), nullable=False),
        sa.Column("reboot_type", sa.String(8), nullable=False),
        sa.Column("rebooted_by", sa.Integer(), nullable=False),
        sa.Column("observed_generation", sa.Integer(), nullable=False),
        sa.Column("observed_power", sa.String(16), nullable=False),
        sa.Column("observed_reason", sa.String(64), nullable=False),
        sa.Column("told_generation", sa.Integer(), nullable=False),
        sa.Column("next_call_at", sa.Float(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("wanted_at", sa.Float(), nullable=False),
        sa.Column("built_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["uuid"], ["instances.uuid"], name="fk_instance_states_uuid"),
        sa.PrimaryKeyConstraint("uuid", name="pk_instance_states"),
    )
    for name, column, condition in (
        ("ix_instance_states_untold", "next_call_at", "told_generation < generation"),
        ("ix_instance_states_pending", "wanted_at", "observed_generation < generation"),
    ):
        op.create_index(
            name,
            "instance_states",
            [column],
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )
    op.create_table(
        "instance_actions",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=False),
        sa.Column("result", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(["uuid"], ["instances.uuid"], name="fk_instance_actions_uuid"),
        sa.PrimaryKeyConstraint("uuid", "number", name="pk_instance_actions"),
    )
    op.create_table(
        "instance_locks",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("reason", sa.String(255), nullable=False),
        sa.Column("by_admin", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["uuid"], ["instances.uuid"], name="fk_instance_locks_uuid"),
        sa.PrimaryKeyConstraint("uuid", name="pk_instance_locks"),
    )
