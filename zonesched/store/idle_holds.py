"""Zone seconds that parents have wasted with holds that they did not confirm; they wear off at a steady rate.

One zone second is the whole capacity of the zone for a second.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared

_row = t.idle_holds.c
_OF_CALLER = Prepared(sa.select(t.idle_holds).where(_row.caller_id == sa.bindparam("caller")))


def read(tx: Connection, caller_id: str, now: float, rate: float) -> float:
    """Read the zone seconds of a parent that have not worn off, at `rate` per second.

    None have where the clock was set back since: they do not grow by that.
    """
    row = _OF_CALLER.first(tx, caller=caller_id)
    return 0.0 if row is None else max(0.0, row.zone_seconds - max(0.0, now - row.updated_at) * rate)


def add(tx: Connection, caller_id: str, zone_seconds: float, now: float, rate: float) -> None:
    """Add zone seconds to those of a parent that have not worn off."""
    mine = _row.caller_id == caller_id
    tx.execute(sa.select(_row.caller_id).where(mine).with_for_update())
    values = {"zone_seconds": read(tx, caller_id, now, rate) + zone_seconds, "updated_at": now}
    if not tx.execute(sa.update(t.idle_holds).where(mine).values(values)).rowcount:
        tx.execute(sa.insert(t.idle_holds).values(caller_id=caller_id, **values))


def forget(tx: Connection, caller_id: str) -> None:
    """Remove the row of a parent."""
    tx.execute(sa.delete(t.idle_holds).where(_row.caller_id == caller_id))
