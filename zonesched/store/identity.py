"""Who this zone is, and the counter that orders its changes."""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t

_NEXT_CHANGE = (
    sa.update(t.counters)
    .where(t.counters.c.name == "changes")
    .values(value=t.counters.c.value + 1)
    .returning(t.counters.c.value)
)


@dataclass(frozen=True)
class Identity:
    """The zone's uuid, and the secret (hex) under which its tenants' host ids are made."""

    zone_uuid: str
    host_id_secret: str = field(repr=False)


def identity(tx: Connection, new: Identity) -> Identity:
    """Who this zone is; `new` becomes it at the first start. Needs a write transaction."""
    found = tx.execute(sa.select(t.identity)).first()
    if found is not None:
        return Identity(found.zone_uuid, found.host_id_secret)
    tx.execute(sa.insert(t.identity).values(id=1, zone_uuid=new.zone_uuid, host_id_secret=new.host_id_secret))
    tx.execute(sa.insert(t.counters).values(name="changes", value=0))
    return new


def next_change(tx: Connection) -> int:
    """The number that this transaction's changes bear."""
    return int(tx.execute(_NEXT_CHANGE).scalar_one())
