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
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

UUID = String(36)
NAME = String(255)

# What a project or a parent may have in place of the options that count for all.
own_limits = Table(
    "own_limits",
    metadata,
    # A project's id, or the id of a parent's user: the names of their limits differ.
    Column("subject", NAME, primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("most", BigInteger, nullable=False),
)

identity = Table(
    "identity",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("zone_uuid", UUID, nullable=False),
    Column("host_id_secret", String(64), nullable=False),
)

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# Whose are the numbers above `after`: of the process that started then, until the next one's.
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
    # Of a parent, in place of the option of this name; "default" leaves it to the option.
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
)

images = Table(
    "images",
    metadata,
    Column("id", NAME, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("properties", Text, nullable=False),
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
    # What the zone calls itself; null until it has answered. No zone is a child twice.
    Column("zone_uuid", UUID, unique=True, index=True),
)

services = Table(
    "services",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("user_id", UUID, nullable=False),
    Column("last_seen_at", Float, nullable=False, index=True),
    # An operator says that the agent is dead, whatever it says itself.
    Column("forced_down", Boolean, nullable=False, index=True),
    # What serves under that name, what hints for it are addressed to, and how often it was heard of.
    Column("binary", String(64), nullable=False),
    Column("topic", String(64), nullable=False),
    Column("report_count", BigInteger, nullable=False),
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
    # What operators say of it; no report of its agent changes these three.
    Column("enabled", Boolean, nullable=False),
    Column("disabled_reason", NAME, nullable=False),
    Column("forced_down", Boolean, nullable=False),
    # Since the last build that did not fail.
    Column("failed_builds", Integer, nullable=False),
    # The last change of more than what is in use.
    Column("facts_seq", BigInteger, nullable=False),
    Column("changed_seq", BigInteger, nullable=False, index=True),
)

aggregates = Table(
    "aggregates",
    metadata,
    Column("id", UUID, primary_key=True),
    # The id that OpenStack's clients know it by; never used twice.
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
    # What the agent reports; beside it, what counts: see model.capacity.effective.
    Column("reported_reserved", Integer, nullable=False),
    Column("reported_ratio", Float, nullable=False),
    Column("reserved", Integer, nullable=False),
    Column("allocation_ratio", Float, nullable=False),
    Column("min_unit", Integer, nullable=False),
    Column("max_unit", Integer, nullable=False),
    Column("step_size", Integer, nullable=False),
    Column("capacity", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    # What was used when the capacity last became less than it, else 0: claims may not have made it so.
    Column("shrunk_used", BigInteger, nullable=False),
    # By how much its agent lastingly counts more than is claimed; negative for less.
    Column("agent_excess", BigInteger, nullable=False, server_default="0"),
    # Rows lie in order of the key, so that a claim finds them with one look-up.
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
    # Who sent it: a parent's user, or this zone's own uuid for what its users asked for.
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
    # How often the reservation was woken, so that a worker sees that it was while it worked.
    Column("pokes", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    # When its worker last had nothing more to do; 0 before.
    Column("settled_at", Float, nullable=False),
    UniqueConstraint("caller_id", "project_id", "idempotency_key", name="uq_reservations_idempotency"),
    Index("ix_reservations_work", "state", "next_work_at"),
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
    Column("kept", Text, nullable=False),
    # What the host table counts instances by: the flavor, the image's properties, "" or a server group.
    Column("flavor_id", NAME, nullable=False),
    Column("image_key", Text, nullable=False),
    Column("group_id", NAME, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    # Its builds that failed after they were confirmed, in this zone.
    Column("failed_builds", Integer, nullable=False, server_default="0"),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("changed_seq", BigInteger, nullable=False),
    Index("ix_instances_changes", "caller_id", "changed_seq"),
    Index("ix_instances_status", "status", "updated_at"),
    Index("ix_instances_listing", "caller_id", "project_id", "created_at", "uuid"),
    # As long as the listing's own: SQLite would walk the whole project to list one reservation otherwise.
    Index("ix_instances_reservation", "reservation_id", "caller_id", "project_id", "created_at", "uuid"),
    # Of those in a group alone: the others cost nothing here.
    Index(
        "ix_instances_group",
        "group_id",
        "caller_id",
        sqlite_where=text("group_id != ''"),
        postgresql_where=text("group_id != ''"),
    ),
)

placements = Table(
    "placements",
    metadata,
    Column("uuid", UUID, ForeignKey("instances.uuid"), primary_key=True),
    # Counted by this zone per instance; for a child's place it is the attempt that the child is told.
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("caller_id", UUID, nullable=False),
    Column("reservation_id", UUID, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("host_id", UUID),
    Column("child_id", UUID),
    Column("blobs", Text, nullable=False),
    Column("resources", Text, nullable=False),
    Column("entry_key", String(80), unique=True),
    Column("state", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("hold_expires_at", Float, nullable=False),
    Column("retained_until", Float, nullable=False),
    Column("next_call_at", Float, nullable=False),
    Column("calls", Integer, nullable=False),
    # Whether the agent of its host may know of it: what it never fetched cannot run there.
    Column("is_fetched", Boolean, nullable=False, server_default=false()),
    Index("ix_placements_host", "host_id", "state"),
    Index("ix_placements_reservation", "reservation_id", "caller_id"),
    Index("ix_placements_state", "state", "next_call_at"),
)

# Where the instances of an affinity group are: one of host_id and child_id.
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
    # The placement that stands for it now; 0 when none was made (a cancel that came first).
    Column("number", Integer, nullable=False),
    # Entries not tried yet, opened, in order.
    Column("rest", Text, nullable=False),
    Column("retained_until", Float, nullable=False),
)
