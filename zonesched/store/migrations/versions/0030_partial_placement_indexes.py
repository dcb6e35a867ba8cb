"""Index placements where they are found by: their host, their child, their entry, and work still to do.

Most are CONFIRMED or over, on a local host, without an entry. An index of all states made SQLite read every
CONFIRMED placement of the zone for an update of one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    with op.batch_alter_table("placements") as table:
        table.drop_constraint("uq_placements_entry_key", type_="unique")
        table.drop_index("ix_placements_host")
        table.drop_index("ix_placements_state")
    _create("uq_placements_entry_key", ["entry_key"], "entry_key IS NOT NULL", unique=True)
    _create("ix_placements_host", ["host_id", "state"], "host_id IS NOT NULL")
    _create("ix_placements_child", ["child_id", "state"], "child_id IS NOT NULL")
    _create(
        "ix_placements_motion",
        ["state", "next_call_at", "caller_id"],
        "state NOT IN ('confirmed', 'gone', 'failed', 'released')",
    )


def _create(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(
        name, "placements", columns, unique=unique, sqlite_where=condition, postgresql_where=condition
    )
