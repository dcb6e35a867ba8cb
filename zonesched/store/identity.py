"""The zone's identity, the numbers that order its changes, and the epochs that tell its histories apart.

Every transaction that changes hosts or instances has a number, under which readers find what it changed. On
SQLite writers come one after the other, and a counter's row gives it. On PostgreSQL they do not: it is the
transaction's own id there, which no two wait for, and transactions end in another order than they are
numbered. So a reader goes on from where all have ended: `visible_change`, or `low_watermark`.

A database that was put back from a copy counts the same numbers again for other changes. Each start of the
zone begins an epoch with a random id: number and epoch together name one change, whichever copy it is in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared

CHANGES = "changes"
AGGREGATES = "aggregates"
REMOVALS = "removed_hosts"
_NEXT = Prepared(
    sa.update(t.counters)
    .where(t.counters.c.name == sa.bindparam("counter"))
    .values(value=t.counters.c.value + 1)
    .returning(t.counters.c.value)
)
_COUNT = sa.select(t.counters.c.value).where(t.counters.c.name == CHANGES).scalar_subquery()
_HIGHEST_SEEN = sa.select(
    sa.func.greatest(
        sa.select(sa.func.max(t.hosts.c.changed_seq)).scalar_subquery(),
        sa.select(sa.func.max(t.instances.c.changed_seq)).scalar_subquery(),
        sa.select(sa.func.max(t.epochs.c.after)).scalar_subquery(),
        0,
    )
)


_EPOCH = Prepared(
    sa.select(t.epochs.c.id)
    .where(t.epochs.c.after < sa.bindparam("number"))
    .order_by(t.epochs.c.after.desc())
    .limit(1)
)


def _transaction_id(found: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """PostgreSQL's xid8, which never wraps around, as a number."""
    return sa.cast(sa.cast(found, sa.Text), sa.BigInteger)


_SNAPSHOT = sa.func.pg_current_snapshot()
# Of the transactions that began before this statement, those that run on in this database. The server shows
# them as 32 bits, and only to whose they are: where it hides any, all databases' count.
_SETTLED = sa.text("""
    WITH seen AS MATERIALIZED (
        SELECT pg_snapshot_xmin(snapshot)::text::bigint AS lowest,
            pg_snapshot_xmax(snapshot)::text::bigint AS next
        FROM pg_current_snapshot() AS snapshot
    ), here AS MATERIALIZED (
        SELECT (next - backend_xid::text::bigint) & 4294967295 AS age,
            query = '<insufficient privilege>' AS hidden
        FROM seen, pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    )
    SELECT counters.value - 1 + CASE
        WHEN (SELECT bool_or(hidden) FROM here) THEN lowest
        ELSE next - (SELECT coalesce(max(age), 0) FROM here WHERE age < 2147483648)
    END
    FROM seen, counters WHERE counters.name = 'changes'
""")


def _number(number: sa.ColumnElement[int]) -> Prepared:
    return Prepared(sa.select(number.label("number")))


_COUNTED = _number(_COUNT)
_OWN = _number(_COUNT + _transaction_id(sa.func.pg_current_xact_id()))
_ENDED = _number(_COUNT + _transaction_id(sa.func.pg_snapshot_xmin(_SNAPSHOT)) - 1)
_GIVEN = _number(_COUNT + _transaction_id(sa.func.pg_snapshot_xmax(_SNAPSHOT)) - 1)


@dataclass(frozen=True)
class Identity:
    """The zone's uuid, and the secret (hex) under which its tenants' host ids are made."""

    zone_uuid: str
    host_id_secret: str = field(repr=False)


def identity(tx: Connection, new: Identity) -> Identity:
    """Read the zone's identity; `new` becomes it at the first start. Needs a write transaction."""
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
    if _numbers_itself(tx):
        _go_on_counting(tx)
    after = last_change(tx)
    tx.execute(sa.delete(t.epochs).where(t.epochs.c.after >= after))
    tx.execute(sa.insert(t.epochs).values(after=after, id=epoch_id))


def epoch_of(tx: Connection, number: int) -> str:
    """The epoch to which a change's number belongs; "" for a number that was not reached."""
    if number > last_change(tx):
        return ""
    row = _EPOCH.first(tx, number=number)
    return str(row.id) if row is not None else ""


def next_change(tx: Connection) -> int:
    """The number that this transaction's changes bear."""
    if _numbers_itself(tx):
        return int(_OWN.first(tx).number)
    return int(_NEXT.all(tx, counter=CHANGES)[0].value)


def low_watermark(tx: Connection) -> int:
    """The number up to which whoever begins after this sees every change; asked in a transaction of its own.

    Of a server's other databases it does not depend.
    """
    if not _numbers_itself(tx):
        return int(_COUNTED.first(tx).number)
    return int(tx.execute(_SETTLED).scalar_one())


def visible_change(tx: Connection) -> int:
    """The number up to which this transaction sees every change that will ever bear one, or a lower one."""
    return int((_ENDED if _numbers_itself(tx) else _COUNTED).first(tx).number)


def last_change(tx: Connection) -> int:
    """The highest number that any transaction has, or may have, by now."""
    return int((_GIVEN if _numbers_itself(tx) else _COUNTED).first(tx).number)


def next_aggregate_number(tx: Connection) -> int:
    """The number of a new aggregate, from 1; none is given twice."""
    return int(_NEXT.all(tx, counter=AGGREGATES)[0].value)


def next_removal(tx: Connection) -> None:
    """Count a removed host."""
    _NEXT.all(tx, counter=REMOVALS)


def _numbers_itself(tx: Connection) -> bool:
    return tx.dialect.name == "postgresql"


def _go_on_counting(tx: Connection) -> None:
    """Count on where the rows are ahead of the server: their ids were given by another one."""
    row = t.counters.c
    tx.execute(sa.select(row.value).where(row.name == CHANGES).with_for_update())
    missing = tx.execute(_HIGHEST_SEEN).scalar_one() - last_change(tx)
    if missing > 0:
        tx.execute(sa.update(t.counters).where(row.name == CHANGES).values(value=row.value + missing))
