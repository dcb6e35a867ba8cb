"""Rename quota overrides, counts of wake-ups, passthrough fields, and the codes in stored rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

REASONS = {"deleted_below": "deleted_in_child", "lost_below": "lost_in_child"}
STEPS = {'"filter":"room","code":"no_room"': '"filter":"free_slots","code":"no_free_slots"'}


def upgrade() -> None:
    op.rename_table("own_limits", "quota_overrides")
    for table, old, new in (
        ("quota_overrides", "most", "hard_limit"),
        ("reservations", "pokes", "wakes"),
        ("instances", "kept", "passthrough"),
    ):
        op.alter_column(table, old, new_column_name=new)
    for name in ("instances", "placements"):
        rows = sa.table(name, sa.column("reason", sa.String))
        for old, new in REASONS.items():
            op.execute(sa.update(rows).where(rows.c.reason == old).values(reason=new))
    boots = sa.table("reservations", sa.column("why", sa.Text))
    for old, new in STEPS.items():
        op.execute(
            sa.update(boots)
            .where(boots.c.why.contains(old, autoescape=True))
            .values(why=sa.func.replace(boots.c.why, old, new))
        )
