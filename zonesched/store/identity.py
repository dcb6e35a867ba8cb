"""Who this zone is, the counter that orders its changes, and the epochs that tell its histories apart.

A database that was put back from a copy counts the same numbers again for other changes. Each start of the
zone begins an epoch with a random id: number and epoch together name one change, whichever copy it is in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t

CHANGES = "changes"
AGGREGATES = "aggregates"
REMOVALS = "removed_hosts"
_NEXT = (
    sa.update(t.counters)
    .where(t.counters.c.name == sa.bindparam("counter"))
    .values(value=t.counters.c.value + 1)
    .returning(t.counters.c.value)
)
_LAST_CHANGE = sa.select(t.counters.c.value).where(t.counters.c.name == "changes")


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
    tx.execute(
        sa.insert(t.counters), [{"name": name, "value": 0} for name in (CHANGES, AGGREGATES, REMOVALS)]
    )
    return new


def begin_epoch(tx: Connection, epoch_id: str) -> None:
    """Numbers from here on belong to this epoch (32 hex digits). One that never got a number ends unseen."""
    after = tx.execute(_LAST_CHANGE).scalar_one()
    tx.execute(sa.delete(t.epochs).where(t.epochs.c.after >= after))
    tx.execute(sa.insert(t.epochs).values(after=after, id=epoch_id))


def epoch_of(tx: Connection, number: int) -> str:
    """The epoch to which a change's number belongs; "" for a number that was not reached."""
    if number > tx.execute(_LAST_CHANGE).scalar_one():
        return ""
    statement = (
        sa.select(t.epochs.c.id).where(t.epochs.c.after < number).order_by(t.epochs.c.after.desc()).limit(1)
    )
    return tx.execute(statement).scalar() or ""


def next_change(tx: Connection) -> int:
    """The number that this transaction's changes bear."""
    return int(tx.execute(_NEXT, {"counter": CHANGES}).scalar_one())


def next_aggregate_number(tx: Connection) -> int:
    """The number of a new aggregate, from 1; none is given twice."""
    return int(tx.execute(_NEXT, {"counter": AGGREGATES}).scalar_one())


def next_removal(tx: Connection) -> None:
    """Count a removed host."""
    tx.execute(_NEXT, {"counter": REMOVALS})
