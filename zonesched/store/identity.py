"""Who this zone is, and the counter that orders its changes."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t


def zone_uuid(tx: Connection, new_uuid: str) -> str:
    """This zone's uuid; `new_uuid` becomes it at the first start. Needs a write transaction."""
    found = tx.execute(sa.select(t.identity.c.zone_uuid)).scalar()
    if found is not None:
        return str(found)
    tx.execute(sa.insert(t.identity).values(id=1, zone_uuid=new_uuid))
    tx.execute(sa.insert(t.counters).values(name="changes", value=0))
    return new_uuid


def next_change(tx: Connection) -> int:
    """The number that this transaction's changes bear."""
    statement = (
        sa.update(t.counters)
        .where(t.counters.c.name == "changes")
        .values(value=t.counters.c.value + 1)
        .returning(t.counters.c.value)
    )
    return int(tx.execute(statement).scalar_one())
