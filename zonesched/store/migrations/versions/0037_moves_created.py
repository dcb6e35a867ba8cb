"""Read a page of moves by an index, from the newest on."""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.create_index("ix_moves_created", "moves", ["created_at"])
