"""Store inventories in order of their host, so that a claim finds them with one look-up (SQLite)."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        by_host = {"sqlite_with_rowid": False}
        with op.batch_alter_table("inventories", recreate="always", table_kwargs=by_host):
            pass
