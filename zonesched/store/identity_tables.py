"""The identity of a zone, and what it learns anew after its rows were restored from a copy."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, String, Table, Text

from zonesched.store.metadata import UUID, metadata

identity = Table(
    "identity",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("zone_uuid", UUID, nullable=False),
    Column("host_id_secret", Text, nullable=False),
    # New at each restore from a copy, "" before the first.
    Column("incarnation", String(32), nullable=False, server_default=""),
)

# Who has not told yet what it has: agents, children, parents, and at last the operator, who ends it.
unheard = Table(
    "unheard",
    metadata,
    Column("kind", String(8), primary_key=True),
    # Of a service, a child or a parent's user; "" for the operator.
    Column("id", UUID, primary_key=True),
)

# The instances that agents and children have told of. Afterwards only those that nobody could place remain.
found_instances = Table(
    "found_instances",
    metadata,
    Column("kind", String(8), primary_key=True),
    # The service or the child that has it.
    Column("holder_id", UUID, primary_key=True),
    Column("uuid", UUID, primary_key=True, index=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    # The local host; null in a child.
    Column("host_id", UUID),
    Column("status", String(16), nullable=False),
    # What was observed of it; null where nothing was.
    Column("observed", Text),
    # The moves in its child that have begun, and those that have ended.
    Column("moves_begun", Integer, nullable=False),
    Column("moves_ended", Integer, nullable=False),
    # What its child gives back: the request, image and flavor; null where the rows have those.
    Column("given_back", Text),
    # The flavor that its agent was told; null in a child or where unknown.
    Column("flavor", Text),
)

# Whose a found instance is: the parent that names it.
named_instances = Table(
    "named_instances",
    metadata,
    Column("uuid", UUID, primary_key=True),
    Column("caller_id", UUID, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("reservation_id", UUID, nullable=False),
    Column("spec", Text, nullable=False),
    # Several parents name it: none counts.
    Column("is_disputed", Boolean, nullable=False),
)
