"""The tables of an instance's life after its build: its state, actions, lock, moves and console.

`zonesched.store.tables` has them too, among all tables; times as there.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    text,
)

from zonesched.store.metadata import NAME, UUID, metadata

# Desired and observed state of an instance; without a row: generation 0, running.
instance_states = Table(
    "instance_states",
    metadata,
    Column("uuid", UUID, ForeignKey("instances.uuid"), primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("power", String(16), nullable=False),
    Column("reboots", Integer, nullable=False),
    Column("reboot_type", String(8), nullable=False),
    # The generation of the last reboot, 0 without one.
    Column("rebooted_by", Integer, nullable=False),
    Column("rebuilds", Integer, nullable=False, server_default="0"),
    # The generation of the last rebuild, 0 without one.
    Column("rebuilt_by", Integer, nullable=False, server_default="0"),
    # The image of the last rebuild, and the one that it has; "" for that of its boot.
    Column("desired_image", Text, nullable=False, server_default=""),
    Column("image", Text, nullable=False, server_default=""),
    Column("observed_generation", Integer, nullable=False),
    Column("observed_power", String(16), nullable=False),
    Column("observed_reason", String(64), nullable=False),
    Column("observed_rebuilds", Integer, nullable=False, server_default="0"),
    # What the child that has the instance has answered for; on a local host always the generation.
    Column("told_generation", Integer, nullable=False),
    Column("next_call_at", Float, nullable=False),
    Column("calls", Integer, nullable=False),
    # When the present generation was decided, and when the instance was built.
    Column("wanted_at", Float, nullable=False),
    Column("built_at", Float, nullable=False),
    # How many moves have begun and ended; one is under way while the two differ.
    Column("moves_begun", Integer, nullable=False, server_default="0"),
    Column("moves_ended", Integer, nullable=False, server_default="0"),
    # Resizes that were asked for, and those that are done; begun, confirmed and reverted.
    Column("resizes_begun", Integer, nullable=False, server_default="0"),
    Column("resizes_confirmed", Integer, nullable=False, server_default="0"),
    Column("resizes_reverted", Integer, nullable=False, server_default="0"),
    Column("observed_resizes_begun", Integer, nullable=False, server_default="0"),
    Column("observed_resizes_confirmed", Integer, nullable=False, server_default="0"),
    Column("observed_resizes_reverted", Integer, nullable=False, server_default="0"),
    # The flavor of the last resize, and the one that it has or may go back to; "" for that of its boot.
    Column("desired_flavor", Text, nullable=False, server_default=""),
    Column("flavor", Text, nullable=False, server_default=""),
    # Since when a resize waits for its confirmation; 0 where none does.
    Column("resized_at", Float, nullable=False, server_default="0"),
    # When a server that its owner has deleted is deleted for good, and how many seconds that is after the
    # delete; 0 for others.
    Column("reclaim_at", Float, nullable=False, server_default="0"),
    Column("reclaim_after", Float, nullable=False, server_default="0"),
    Index(
        "ix_instance_states_untold",
        "next_call_at",
        sqlite_where=text("told_generation < generation"),
        postgresql_where=text("told_generation < generation"),
    ),
    Index(
        "ix_instance_states_resized",
        "resized_at",
        sqlite_where=text("resized_at > 0"),
        postgresql_where=text("resized_at > 0"),
    ),
    Index(
        "ix_instance_states_reclaim",
        "reclaim_at",
        sqlite_where=text("reclaim_at > 0"),
        postgresql_where=text("reclaim_at > 0"),
    ),
    Index(
        "ix_instance_states_pending",
        "wanted_at",
        sqlite_where=text("observed_generation < generation"),
        postgresql_where=text("observed_generation < generation"),
    ),
)

# Actions that this zone took, numbered per instance in the order accepted.
instance_actions = Table(
    "instance_actions",
    metadata,
    Column("uuid", UUID, ForeignKey("instances.uuid"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("action", String(32), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("user_id", UUID, nullable=False),
    Column("project_id", NAME, nullable=False),
    # 0 for actions that change no desired state.
    Column("generation", Integer, nullable=False),
    Column("started_at", Float, nullable=False),
    # 0 and "" until the action ends.
    Column("finished_at", Float, nullable=False),
    Column("result", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
)

# Locked instances; members may not act on them.
instance_locks = Table(
    "instance_locks",
    metadata,
    Column("uuid", UUID, ForeignKey("instances.uuid"), primary_key=True),
    Column("reason", NAME, nullable=False),
    # Its owner may not unlock it then.
    Column("by_admin", Boolean, nullable=False),
)

# Moves of instances between hosts of this zone, the ended ones included.
moves = Table(
    "moves",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("uuid", UUID, ForeignKey("instances.uuid"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    # Numbers of the old and the new placement; the new one is 0 until it is claimed.
    Column("from_number", Integer, nullable=False),
    Column("to_number", Integer, nullable=False),
    # Names, which outlive the hosts; "" where it is not known, or not asked for.
    Column("source_host", NAME, nullable=False),
    Column("dest_host", NAME, nullable=False),
    Column("asked_host", NAME, nullable=False),
    # The action that began it, as in instance_actions; 0 where a generation did, as of a resize.
    Column("action", Integer, nullable=False),
    Column("generation", Integer, nullable=False, server_default="0"),
    Column("selects", Integer, nullable=False),
    # The count of its steps: a step counts only if no other came before it.
    Column("steps", Integer, nullable=False),
    Column("reason", String(64), nullable=False),
    # The decision trace of the last select, as in reservations.
    Column("why", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("next_step_at", Float, nullable=False),
    # A page of moves begins at its newest.
    Index("ix_moves_created", "created_at"),
    Index(
        "uq_moves_living",
        "uuid",
        unique=True,
        sqlite_where=text("state NOT IN ('done', 'failed', 'reverted')"),
        postgresql_where=text("state NOT IN ('done', 'failed', 'reverted')"),
    ),
    Index(
        "ix_moves_due",
        "next_step_at",
        sqlite_where=text("state NOT IN ('done', 'failed', 'reverted')"),
        postgresql_where=text("state NOT IN ('done', 'failed', 'reverted')"),
    ),
)
MOVE_IS_LIVING = text("moves.state NOT IN ('done', 'failed', 'reverted')")
"""Condition of the partial indexes, without a parameter: else SQLite would not use them."""

# Console outputs that callers wait for, until they have read the answer.
console_asks = Table(
    "console_asks",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("service_id", UUID, nullable=False),
    # The placement whose host has the instance.
    Column("uuid", UUID, nullable=False),
    Column("number", Integer, nullable=False),
    Column("expires_at", Float, nullable=False, index=True),
    # "" until the agent answers.
    Column("state", String(16), nullable=False),
    Column("output", Text, nullable=False),
    Index("ix_console_asks_open", "service_id", "state", "expires_at"),
)
