"""Create the tables of a zone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "children",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("api_url", sa.Text(), nullable=False),
        sa.Column("username", sa.String(length=255), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("weight_offset", sa.Float(), nullable=False),
        sa.Column("weight_scale", sa.Float(), nullable=False),
        sa.Column("cursor", sa.String(length=256), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_children")),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "epochs",
        sa.Column("after", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("after", name=op.f("pk_epochs")),
    )
    op.create_table(
        "flavors",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("ram_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("extra_specs", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavors")),
        sa.UniqueConstraint("name", name=op.f("uq_flavors_name")),
    )
    op.create_table(
        "identity",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("zone_uuid", sa.String(length=36), nullable=False),
        sa.Column("host_id_secret", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity")),
    )
    op.create_table(
        "images",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
    )
    op.create_table(
        "inbound_builds",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("caller_id", sa.String(length=36), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rest", sa.Text(), nullable=False),
        sa.Column("retained_until", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("uuid", "caller_id", "attempt", name=op.f("pk_inbound_builds")),
    )
    op.create_table(
        "instances",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("caller_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("kept", sa.Text(), nullable=False),
        sa.Column("flavor_id", sa.String(length=255), nullable=False),
        sa.Column("image_key", sa.Text(), nullable=False),
        sa.Column("group_id", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("changed_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_instances")),
    )
    op.create_index("ix_instances_status", "instances", ["status", "updated_at"], unique=False)
    op.create_index("ix_instances_changes", "instances", ["caller_id", "changed_seq"], unique=False)
    op.create_index(
        "ix_instances_listing", "instances", ["caller_id", "project_id", "created_at", "uuid"], unique=False
    )
    op.create_index(
        "ix_instances_reservation",
        "instances",
        ["reservation_id", "caller_id", "project_id", "created_at", "uuid"],
        unique=False,
    )
    op.create_index(
        "ix_instances_group",
        "instances",
        ["group_id", "caller_id"],
        unique=False,
        sqlite_where=sa.text("group_id != ''"),
        postgresql_where=sa.text("group_id != ''"),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("caller_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("num_instances", sa.Integer(), nullable=False),
        sa.Column("min_count", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("selects", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("lease_number", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", sa.Float(), nullable=False),
        sa.Column("next_work_at", sa.Float(), nullable=False),
        sa.Column("pokes", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", "caller_id", name=op.f("pk_reservations")),
        sa.UniqueConstraint("caller_id", "project_id", "idempotency_key", name="uq_reservations_idempotency"),
    )
    op.create_table(
        "group_places",
        sa.Column("caller_id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=255), nullable=False),
        sa.Column("host_id", sa.String(length=36), nullable=True),
        sa.Column("child_id", sa.String(length=36), nullable=True),
        sa.PrimaryKeyConstraint("caller_id", "group_id", name=op.f("pk_group_places")),
    )
    op.create_table(
        "server_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("policy", sa.String(length=32), nullable=False),
        sa.Column("max_server_per_host", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_server_groups")),
    )
    op.create_index(op.f("ix_server_groups_project_id"), "server_groups", ["project_id"], unique=False)
    op.create_index("ix_reservations_work", "reservations", ["state", "next_work_at"], unique=False)
    op.create_table(
        "services",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("last_seen_at", sa.Float(), nullable=False),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
        sa.UniqueConstraint("name", name=op.f("uq_services_name")),
    )
    op.create_index(op.f("ix_services_forced_down"), "services", ["forced_down"], unique=False)
    op.create_index(op.f("ix_services_last_seen_at"), "services", ["last_seen_at"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("explain_to_parent", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "hosts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=False),
        sa.Column("service_id", sa.String(length=36), nullable=False),
        sa.Column("capabilities", sa.Text(), nullable=False),
        sa.Column("traits", sa.Text(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=False),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("failed_builds", sa.Integer(), nullable=False),
        sa.Column("facts_seq", sa.BigInteger(), nullable=False),
        sa.Column("changed_seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["service_id"], ["services.id"], name=op.f("fk_hosts_service_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hosts")),
        sa.UniqueConstraint("name", name=op.f("uq_hosts_name")),
    )
    op.create_index(op.f("ix_hosts_changed_seq"), "hosts", ["changed_seq"], unique=False)
    op.create_index(op.f("ix_hosts_service_id"), "hosts", ["service_id"], unique=False)
    op.create_table(
        "placements",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("caller_id", sa.String(length=36), nullable=False),
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("host_id", sa.String(length=36), nullable=True),
        sa.Column("child_id", sa.String(length=36), nullable=True),
        sa.Column("blobs", sa.Text(), nullable=False),
        sa.Column("resources", sa.Text(), nullable=False),
        sa.Column("entry_key", sa.String(length=80), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("hold_expires_at", sa.Float(), nullable=False),
        sa.Column("retained_until", sa.Float(), nullable=False),
        sa.Column("next_call_at", sa.Float(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["uuid"], ["instances.uuid"], name=op.f("fk_placements_uuid")),
        sa.PrimaryKeyConstraint("uuid", "number", name=op.f("pk_placements")),
        sa.UniqueConstraint("entry_key", name=op.f("uq_placements_entry_key")),
    )
    op.create_index("ix_placements_host", "placements", ["host_id", "state"], unique=False)
    op.create_index("ix_placements_reservation", "placements", ["reservation_id", "caller_id"], unique=False)
    op.create_index("ix_placements_state", "placements", ["state", "next_call_at"], unique=False)
    op.create_table(
        "aggregates",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
        sa.UniqueConstraint("number", name=op.f("uq_aggregates_number")),
    )
    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", sa.String(length=36), nullable=False),
        sa.Column("host_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["aggregate_id"],
            ["aggregates.id"],
            name=op.f("fk_aggregate_hosts_aggregate_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["host_id"], ["hosts.id"], name=op.f("fk_aggregate_hosts_host_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("aggregate_id", "host_id", name=op.f("pk_aggregate_hosts")),
    )
    op.create_index(op.f("ix_aggregate_hosts_host_id"), "aggregate_hosts", ["host_id"], unique=False)
    op.create_table(
        "inventories",
        sa.Column("host_id", sa.String(length=36), nullable=False),
        sa.Column("resource_class", sa.String(length=64), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("reported_reserved", sa.Integer(), nullable=False),
        sa.Column("reported_ratio", sa.Float(), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=False),
        sa.Column("allocation_ratio", sa.Float(), nullable=False),
        sa.Column("min_unit", sa.Integer(), nullable=False),
        sa.Column("max_unit", sa.Integer(), nullable=False),
        sa.Column("step_size", sa.Integer(), nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("shrunk_used", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["host_id"], ["hosts.id"], name=op.f("fk_inventories_host_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("host_id", "resource_class", name=op.f("pk_inventories")),
    )
    op.create_table(
        "inventory_settings",
        sa.Column("host_id", sa.String(length=36), nullable=False),
        sa.Column("resource_class", sa.String(length=64), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=True),
        sa.Column("allocation_ratio", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["host_id"], ["hosts.id"], name=op.f("fk_inventory_settings_host_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("host_id", "resource_class", name=op.f("pk_inventory_settings")),
    )
