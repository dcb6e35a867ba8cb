"""The tables of one zone.

Times are UTC epoch seconds of this zone's clock. `changed_seq` columns hold the number that the writing
transaction took from `counters`, so that readers can ask for what changed since.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
    true,
)

from zonesched.store import identity_tables, placement_tables, state_tables, user_tables
from zonesched.store.metadata import NAME, UUID, metadata

dashboard_sessions = user_tables.dashboard_sessions
found_instances = identity_tables.found_instances
named_instances = identity_tables.named_instances
instance_actions = state_tables.instance_actions
instance_locks = state_tables.instance_locks
instance_states = state_tables.instance_states
keypairs = user_tables.keypairs
moves = state_tables.moves
MOVE_IS_LIVING = state_tables.MOVE_IS_LIVING
placements = placement_tables.placements
PLACE_IS_IN_MOTION = placement_tables.PLACE_IS_IN_MOTION
group_places = placement_tables.group_places
inbound_builds = placement_tables.inbound_builds
IS_TOMBSTONE = placement_tables.IS_TOMBSTONE
unheard = identity_tables.unheard

# Quota overrides of projects and parents.
quota_overrides = Table(
    "quota_overrides",
    metadata,
    # A project's id, or the id of a parent's user; the names of their quotas differ.
    Column("subject", NAME, primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("hard_limit", BigInteger, nullable=False),
)

identity = identity_tables.identity

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# The epoch of the change numbers above `after`, up to the next row's.
epochs = Table(
    "epochs",
    metadata,
    Column("after", BigInteger, primary_key=True, autoincrement=False),
    Column("id", String(32), nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("project_id", NAME, nullable=False),
    Column("secret", Text, nullable=False),
    # Overrides the option of this name for a parent; "default" leaves it to the option.
    Column("explain_to_parent", String(16), nullable=False),
    Column("created_at", Float, nullable=False),
)

flavors = Table(
    "flavors",
    metadata,
    Column("id", NAME, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("vcpus", Integer, nullable=False),
    Column("ram_mb", Integer, nullable=False),
    Column("disk_gb", Integer, nullable=False),
    Column("extra_specs", Text, nullable=False),
    Column("ephemeral_gb", Integer, nullable=False, server_default="0"),
    Column("swap_mb", Integer, nullable=False, server_default="0"),
    Column("is_public", Boolean, nullable=False, server_default=true()),
    Column("description", Text, nullable=False, server_default=""),
    Column("rxtx_factor", Float, nullable=False, server_default="1"),
)

# Projects that may use a flavor that is not public.
flavor_projects = Table(
    "flavor_projects",
    metadata,
    Column("flavor_id", NAME, primary_key=True),
    Column("project_id", NAME, primary_key=True),
)

images = Table(
    "images",
    metadata,
    Column("id", NAME, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("properties", Text, nullable=False),
    Column("min_disk_gb", Integer, nullable=False, server_default="0"),
    Column("min_ram_mb", Integer, nullable=False, server_default="0"),
    Column("created_at", Float, nullable=False, server_default="0"),
)

server_groups = Table(
    "server_groups",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("project_id", NAME, nullable=False, index=True),
    Column("user_id", UUID, nullable=False),
    Column("policy", String(32), nullable=False),
    Column("max_server_per_host", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
)

children = Table(
    "children",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("name", NAME, nullable=False),
    Column("api_url", Text, nullable=False),
    Column("username", NAME, nullable=False),
    Column("password", Text, nullable=False),
    Column("weight_offset", Float, nullable=False),
    Column("weight_scale", Float, nullable=False),
    Column("cursor", String(256), nullable=False),
    # The uuid that the zone reports, null before; no zone is a child twice.
    Column("zone_uuid", UUID, unique=True, index=True),
    Column("is_enabled", Boolean, nullable=False, server_default=true()),
)

services = Table(
    "services",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("user_id", UUID, nullable=False),
    Column("last_seen_at", Float, nullable=False, index=True),
    # An operator has declared the agent dead, despite its heartbeats.
    Column("forced_down", Boolean, nullable=False, index=True),
    # The kind of service, the address of its notifications, and the count of its heartbeats.
    Column("binary", String(64), nullable=False),
    Column("topic", String(64), nullable=False),
    Column("report_count", BigInteger, nullable=False),
    # How often its hosts were registered: one that an agent sent before the last of these is too late.
    Column("registrations", BigInteger, nullable=False, server_default="0"),
    # The id that its agent keeps in its state folder, "" for an agent without one.
    Column("agent_id", UUID, nullable=False, server_default=""),
    # That folder on one boot of one machine, "" for an agent that names none.
    Column("agent_home", UUID, nullable=False, server_default=""),
    # When the same agent, from another home, last asked for the place and was told to wait; 0 for never.
    Column("returned_at", Float, nullable=False, server_default="0"),
)

# Promises of agents to end their instances so long after the last heartbeat that was answered.
fencing_promises = Table(
    "fencing_promises",
    metadata,
    Column("service_id", UUID, primary_key=True),
    Column("fence_after_s", Float, nullable=False),
    Column("heartbeat", UUID, nullable=False),
)

hosts = Table(
    "hosts",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("address", NAME, nullable=False),
    Column("availability_zone", NAME, nullable=False),
    Column("service_id", UUID, ForeignKey("services.id"), nullable=False, index=True),
    Column("capabilities", Text, nullable=False),
    Column("traits", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    # Set by operators; reports of the agent do not change these three.
    Column("enabled", Boolean, nullable=False),
    Column("disabled_reason", NAME, nullable=False),
    Column("forced_down", Boolean, nullable=False),
    # Failed builds since the last successful one.
    Column("failed_builds", Integer, nullable=False),
    # The last change of anything but the use.
    Column("facts_seq", BigInteger, nullable=False),
    Column("changed_seq", BigInteger, nullable=False, index=True),
    Index(
        "ix_hosts_forced_down",
        "forced_down",
        sqlite_where=text("forced_down = 1"),
        postgresql_where=text("forced_down"),
    ),
)

aggregates = Table(
    "aggregates",
    metadata,
    Column("id", UUID, primary_key=True),
    # The id for OpenStack's clients; never reused.
    Column("number", Integer, nullable=False, unique=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("metadata", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
)

aggregate_hosts = Table(
    "aggregate_hosts",
    metadata,
    Column("aggregate_id", UUID, ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
    Column("host_id", UUID, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True, index=True),
)

inventories = Table(
    "inventories",
    metadata,
    Column("host_id", UUID, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True),
    Column("resource_class", String(64), primary_key=True),
    Column("total", Integer, nullable=False),
    # As the agent reports them; the effective values are computed by model.capacity.effective.
    Column("reported_reserved", Integer, nullable=False),
    Column("reported_ratio", Float, nullable=False),
    Column("reserved", Integer, nullable=False),
    Column("allocation_ratio", Float, nullable=False),
    Column("min_unit", Integer, nullable=False),
    Column("max_unit", Integer, nullable=False),
    Column("step_size", Integer, nullable=False),
    Column("capacity", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    # The use when the capacity last shrank below it, else 0: no claim has caused this excess.
    Column("shrunk_used", BigInteger, nullable=False),
    # The agent's lasting count minus the claims.
    Column("agent_excess", BigInteger, nullable=False, server_default="0"),
    # Rows are stored in order of the key, so that a claim finds them with one look-up.
    sqlite_with_rowid=False,
)

inventory_settings = Table(
    "inventory_settings",
    metadata,
    Column("host_id", UUID, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True),
    Column("resource_class", String(64), primary_key=True),
    # Null: not set by an operator.
    Column("reserved", Integer),
    Column("allocation_ratio", Float),
)

reservations = Table(
    "reservations",
    metadata,
    Column("id", UUID, primary_key=True),
    # The sender: a parent's user, or this zone's own uuid for its own users.
    Column("caller_id", UUID, primary_key=True),
    Column("project_id", NAME, nullable=False),
    Column("user_id", UUID, nullable=False),
    Column("spec", Text, nullable=False),
    Column("num_instances", Integer, nullable=False),
    Column("min_count", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("why", Text, nullable=False),
    Column("selects", Integer, nullable=False),
    Column("idempotency_key", NAME),
    Column("fingerprint", String(64), nullable=False),
    Column("lease_number", Integer, nullable=False),
    Column("lease_expires_at", Float, nullable=False),
    Column("next_work_at", Float, nullable=False),
    # The number of wake-ups, so that a worker notices one during its work.
    Column("wakes", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    # When the boot was last settled; 0 before.
    Column("settled_at", Float, nullable=False),
    UniqueConstraint("caller_id", "project_id", "idempotency_key", name="uq_reservations_idempotency"),
    Index("ix_reservations_work", "state", "next_work_at"),
    Index("ix_reservations_listing", "caller_id", "project_id", "created_at", "id"),
    Index("ix_reservations_created", "created_at", "id"),
)

instances = Table(
    "instances",
    metadata,
    Column("uuid", UUID, primary_key=True),
    Column("caller_id", UUID, nullable=False),
    Column("project_id", NAME, nullable=False),
    Column("user_id", UUID, nullable=False),
    Column("reservation_id", UUID, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", NAME, nullable=False),
    Column("passthrough", Text, nullable=False),
    # The host table counts instances by flavor, image properties and server group ("" for none).
    Column("flavor_id", NAME, nullable=False),
    Column("image_key", Text, nullable=False),
    Column("group_id", NAME, nullable=False),
    # The sizes of its present flavor, which the use of its project sums up.
    Column("vcpus", Integer, nullable=False, server_default="0"),
    Column("ram_mb", Integer, nullable=False, server_default="0"),
    Column("status", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    # Builds that failed after their confirm, in this zone.
    Column("failed_builds", Integer, nullable=False, server_default="0"),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    # When one in ERROR or DELETED ended.
    Column("ended_at", Float, nullable=False, server_default="0"),
    Column("changed_seq", BigInteger, nullable=False),
    # The status is rewritten with the number anyway: a parent's living instances are counted from here.
    Index("ix_instances_changes", "caller_id", "changed_seq", "status"),
    Index("ix_instances_status", "status", "updated_at"),
    # With the sizes, which the use of a project sums up; those that count no more are subtracted.
    Index("ix_instances_listing", "caller_id", "project_id", "created_at", "uuid", "vcpus", "ram_mb"),
    # Partial: instances that run cost nothing.
    Index(
        "ix_instances_ended",
        "caller_id",
        "project_id",
        "vcpus",
        "ram_mb",
        # Else SQLite would read the rows, too.
        "status",
        sqlite_where=text("status IN ('DELETED', 'ERROR')"),
        postgresql_where=text("status IN ('DELETED', 'ERROR')"),
    ),
    Index("ix_instances_created", "created_at", "uuid"),
    # As long as the listing's index: else SQLite would walk the whole project to list one reservation.
    Index("ix_instances_reservation", "reservation_id", "caller_id", "project_id", "created_at", "uuid"),
    # Partial: instances without a group cost nothing.
    Index(
        "ix_instances_group",
        "group_id",
        "caller_id",
        sqlite_where=text("group_id != ''"),
        postgresql_where=text("group_id != ''"),
    ),
)

INSTANCE_HAS_ENDED = text("instances.status IN ('DELETED', 'ERROR')")
"""Condition of the partial index, without a parameter: else SQLite would not use it."""

# The capacity that parents took with holds that they did not confirm.
idle_holds = Table(
    "idle_holds",
    metadata,
    Column("caller_id", UUID, primary_key=True),
    # One is the whole capacity of the zone for a second.
    Column("zone_seconds", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
)

# The uuid that a parent gave an instance, where another caller's instance has it here.
aliases = Table(
    "aliases",
    metadata,
    Column("caller_id", UUID, primary_key=True),
    Column("uuid", UUID, primary_key=True),
    Column(
        "instance_uuid", UUID, ForeignKey("instances.uuid", ondelete="CASCADE"), nullable=False, unique=True
    ),
)
