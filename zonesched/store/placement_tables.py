"""The tables of the places of instances, and of the builds of parents that they serve.

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
    false,
    text,
)

from zonesched.store.metadata import NAME, UUID, metadata

placements = Table(
    "placements",
    metadata,
    Column("uuid", UUID, ForeignKey("instances.uuid"), primary_key=True),
    # Counted by this zone per instance; the child knows it as the attempt.
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("caller_id", UUID, nullable=False),
    Column("reservation_id", UUID, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("host_id", UUID),
    Column("child_id", UUID),
    Column("blobs", Text, nullable=False),
    Column("resources", Text, nullable=False),
    Column("entry_key", String(80)),
    Column("state", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("hold_expires_at", Float, nullable=False),
    Column("retained_until", Float, nullable=False),
    Column("next_call_at", Float, nullable=False),
    Column("calls", Integer, nullable=False),
    # True once the host's agent may know of it; a build that was never fetched cannot run there.
    Column("is_fetched", Boolean, nullable=False, server_default=false()),
    # Partial: most placements are CONFIRMED or over, on a local host and without an entry, and cost nothing.
    Index(
        "uq_placements_entry_key",
        "entry_key",
        unique=True,
        sqlite_where=text("entry_key IS NOT NULL"),
        postgresql_where=text("entry_key IS NOT NULL"),
    ),
    Index(
        "ix_placements_host",
        "host_id",
        "state",
        sqlite_where=text("host_id IS NOT NULL"),
        postgresql_where=text("host_id IS NOT NULL"),
    ),
    Index(
        "ix_placements_child",
        "child_id",
        "state",
        sqlite_where=text("child_id IS NOT NULL"),
        postgresql_where=text("child_id IS NOT NULL"),
    ),
    Index(
        "ix_placements_motion",
        "state",
        "next_call_at",
        "caller_id",
        sqlite_where=text("state NOT IN ('confirmed', 'gone', 'failed', 'released')"),
        postgresql_where=text("state NOT IN ('confirmed', 'gone', 'failed', 'released')"),
    ),
    Index("ix_placements_reservation", "reservation_id", "caller_id"),
)
PLACE_IS_IN_MOTION = text("placements.state NOT IN ('confirmed', 'gone', 'failed', 'released')")
"""Condition of the partial index, without a parameter: else SQLite would not use it."""

# The place of an affinity group: one of host_id and child_id.
group_places = Table(
    "group_places",
    metadata,
    Column("caller_id", UUID, primary_key=True),
    Column("group_id", NAME, primary_key=True),
    Column("host_id", UUID),
    Column("child_id", UUID),
)

inbound_builds = Table(
    "inbound_builds",
    metadata,
    Column("uuid", UUID, primary_key=True),
    Column("caller_id", UUID, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("reservation_id", UUID, nullable=False),
    # Number of its present placement; 0 when a cancel came first.
    Column("number", Integer, nullable=False),
    # Entries not tried yet, opened, in order.
    Column("rest", Text, nullable=False),
    Column("retained_until", Float, nullable=False),
    # Partial: a build with a placement costs nothing.
    Index(
        "ix_inbound_builds_tombstones",
        "caller_id",
        "retained_until",
        sqlite_where=text("number = 0"),
        postgresql_where=text("number = 0"),
    ),
)
IS_TOMBSTONE = text("inbound_builds.number = 0")
"""Condition of the partial index, without a parameter: else SQLite would not use it."""
