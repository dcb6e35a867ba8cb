"""The zone's identity, the numbers that order its changes, and the epochs that tell its histories apart.

Every transaction that changes hosts or instances has a number, by which readers find its changes.
SQLite has one writer at a time: a counter gives the number. On PostgreSQL, writers run concurrently:
the number is the transaction's own id, so that none waits for it, and transactions end in another order than
their numbers. So a reader continues at a number up to which all have ended: `visible_change`, or
`low_watermark`.

A database that was restored from a copy counts the same numbers again for other changes. Each start of the
zone begins an epoch with a random id: number and epoch together identify one change in every copy.
So does a process that meets another server, or one that was started anew: a standby that took over without
the last commits counts their numbers again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import outcomes
from zonesched.store import tables as t
from zonesched.store.outcomes import Numbered
from zonesched.store.prepared import Prepared

CHANGES = "changes"
AGGREGATES = "aggregates"
REMOVALS = "removed_hosts"
_IDENTITY = Prepared(sa.select(t.identity.c.zone_uuid, t.identity.c.host_id_secret))
_LAST_START = Prepared(sa.select(t.epochs.c.id).order_by(t.epochs.c.after.desc()).limit(1))
_END_EPOCHS = Prepared(sa.delete(t.epochs).where(t.epochs.c.after >= sa.bindparam("number")))
_BEGIN_EPOCH = Prepared(sa.insert(t.epochs))
_NEXT = Prepared(
    sa.update(t.counters)
    .where(t.counters.c.name == sa.bindparam("counter"))
    .values(value=t.counters.c.value + 1)
    .returning(t.counters.c.value)
)
_COUNT = sa.select(t.counters.c.value).where(t.counters.c.name == CHANGES).scalar_subquery()
_instance = t.instances.c
_FIRST_CALLER = sa.select(sa.func.min(_instance.caller_id).label("id")).cte("callers", recursive=True)
_CALLERS = _FIRST_CALLER.union_all(
    sa.select(
        sa.select(sa.func.min(_instance.caller_id))
        .where(_instance.caller_id > _FIRST_CALLER.c.id)
        .scalar_subquery()
    ).where(_FIRST_CALLER.c.id.is_not(None))
)
# By an index that begins with the caller: one look for each caller, however many instances there are.
_OF_INSTANCES = (
    sa.select(
        sa.func.max(
            sa.select(sa.func.max(_instance.changed_seq))
            .where(_instance.caller_id == _CALLERS.c.id)
            .correlate(_CALLERS)
            .scalar_subquery()
        )
    )
    .select_from(_CALLERS)
    .scalar_subquery()
)
_ALL_CALLERS = Prepared(sa.select(_CALLERS.c.id).where(_CALLERS.c.id.is_not(None)))
_OF_HOSTS = sa.select(sa.func.max(t.hosts.c.changed_seq)).scalar_subquery()
_REMOVALS = sa.select(t.counters.c.value).where(t.counters.c.name == REMOVALS).scalar_subquery()
_SEEN = Prepared(
    sa.select(
        sa.func.coalesce(_OF_HOSTS, 0).label("of_hosts"),
        sa.func.coalesce(_OF_INSTANCES, 0).label("of_instances"),
        _REMOVALS.label("removals"),
    )
)
_LAST_EPOCH = sa.select(sa.func.coalesce(sa.func.max(t.epochs.c.after), 0))


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
# Transactions of this database that began before this statement and still run. The server shows their ids as
# 32 bits, and only to their own user: if it hides any, the transactions of all databases count.
_LOW_WATERMARK = sa.text("""
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
_OWN_ID = _transaction_id(sa.func.pg_current_xact_id())
_OWN = _number(_COUNT + _OWN_ID)
# Where the server tells how far its log is written: what proves later that it has this transaction.
_OWN_WRITTEN = Prepared(
    sa.select(
        (_COUNT + _OWN_ID).label("number"),
        _OWN_ID.label("transaction"),
        sa.cast(sa.text("pg_current_wal_insert_lsn() - '0/0'"), sa.BigInteger).label("written"),
    )
)
_ENDED = _number(_COUNT + _transaction_id(sa.func.pg_snapshot_xmin(_SNAPSHOT)) - 1)
_GIVEN = _number(_COUNT + _transaction_id(sa.func.pg_snapshot_xmax(_SNAPSHOT)) - 1)


@dataclass(frozen=True)
class Identity:
    """The zone's uuid, and the zone's own secret as it is stored: 64 hex digits, or encrypted.

    Host ids that tenants see, cursors and tie keys are derived from the secret.
    """

    zone_uuid: str
    stored_secret: str = field(repr=False)


def identity(tx: Connection, new: Identity) -> Identity:
    """Read the zone's identity; the first start stores `new`. Needs a write transaction."""
    found = _IDENTITY.first(tx)
    if found is not None:
        return Identity(found.zone_uuid, found.host_id_secret)
    tx.execute(sa.insert(t.identity).values(id=1, zone_uuid=new.zone_uuid, host_id_secret=new.stored_secret))
    tx.execute(
        sa.insert(t.counters), [{"name": name, "value": 0} for name in (CHANGES, AGGREGATES, REMOVALS)]
    )
    return new


def zone_uuids(tx: Connection) -> list[str]:
    """Read the uuid of the zone; none before its first start."""
    return list(tx.execute(sa.select(t.identity.c.zone_uuid)).scalars())


def replace_secret(tx: Connection, old: Identity, stored_secret: str) -> None:
    """Replace the zone's stored secret, unless another process has done so."""
    row = t.identity.c
    tx.execute(
        sa.update(t.identity)
        .where(row.host_id_secret == old.stored_secret)
        .values(host_id_secret=stored_secret)
    )


def begin_epoch(tx: Connection, epoch_id: str) -> None:
    """Begin an epoch (32 hex digits) for all later numbers; it replaces an epoch that got none."""
    if _numbers_itself(tx):
        _go_on_counting(tx)
    after = last_change(tx)
    _END_EPOCHS.run(tx, number=after)
    _BEGIN_EPOCH.run(tx, after=after, id=epoch_id)


def begin_epoch_of_server(tx: Connection, server: str) -> None:
    """Begin an epoch for all later numbers that this server gives, unless another process has."""
    me = _IDENTITY.first(tx).zone_uuid
    epoch_id = hashlib.blake2b(f"{me} {server}".encode(), digest_size=16).hexdigest()
    if not tx.execute(sa.select(t.epochs.c.id).where(t.epochs.c.id == epoch_id)).first():
        begin_epoch(tx, epoch_id)


def epoch_of(tx: Connection, number: int) -> str:
    """Read the epoch to which a change's number belongs; "" for a number not given yet."""
    if number > last_change(tx):
        return ""
    row = _EPOCH.first(tx, number=number)
    return str(row.id) if row is not None else ""


def newest_start(tx: Connection) -> str:
    """Read the id of the epoch that the zone's last start began, as a uuid."""
    return str(UUID(_LAST_START.first(tx).id))


def next_change(tx: Connection) -> int:
    """Take the number of this transaction's changes."""
    return ask_next_change(tx)()


def ask_next_change(tx: Connection) -> Callable[[], int]:
    """Take the number as `next_change` does, and return what waits for it."""
    if not _numbers_itself(tx):
        counted = _NEXT.send(tx, counter=CHANGES)
        return lambda: int(counted.all()[0].value)
    connection: Any = tx.connection.dbapi_connection
    if not connection.tells_log:
        sent = _OWN.send(tx)
        return lambda: int(sent.all()[0].number)
    own = _OWN_WRITTEN.send(tx)

    def take() -> int:
        ((number, transaction, written),) = own.all()
        outcomes.note(tx, Numbered(number, transaction, written))
        return int(number)

    return take


def low_watermark(tx: Connection) -> int:
    """Read the number up to which every later transaction sees all changes; needs a transaction of its own.

    Transactions in other databases of the server do not hold it back.
    """
    if not _numbers_itself(tx):
        return int(_COUNTED.first(tx).number)
    return int(tx.execute(_LOW_WATERMARK).scalar_one())


def visible_change(tx: Connection) -> int:
    """Read the number up to which this transaction sees all changes, including those that run now."""
    return ask_visible_change(tx)()


def ask_visible_change(tx: Connection) -> Callable[[], int]:
    """Read the number as `visible_change` does, and return what waits for it."""
    sent = (_ENDED if _numbers_itself(tx) else _COUNTED).send(tx)
    return lambda: int(sent.all()[0].number)


def last_change(tx: Connection) -> int:
    """Read the highest number that any transaction has, or may have, by now."""
    return int((_GIVEN if _numbers_itself(tx) else _COUNTED).first(tx).number)


def stored_changes(tx: Connection, watermark: int) -> tuple[int, ...]:
    """Read numbers that differ after each change of hosts and instances which this transaction sees.

    `watermark`: the low watermark, read before. A change may end after one of a higher number.
    """
    seen = _SEEN.first(tx)
    newest = max(seen.of_hosts, seen.of_instances)
    return newest, min(newest, watermark), seen.removals


def callers(tx: Connection) -> list[str]:
    """Read who has sent the instances that there are: parents' users, and this zone's uuid for its own."""
    return [row.id for row in _ALL_CALLERS.all(tx)]


def next_aggregate_number(tx: Connection) -> int:
    """Take the number of a new aggregate, from 1; numbers are never reused."""
    return int(_NEXT.all(tx, counter=AGGREGATES)[0].value)


def next_removal(tx: Connection) -> None:
    """Count a removed host."""
    _NEXT.all(tx, counter=REMOVALS)


def _numbers_itself(tx: Connection) -> bool:
    return tx.dialect.name == "postgresql"


def _go_on_counting(tx: Connection) -> None:
    """Raise the counter where rows have higher numbers than this server gives: another server gave them."""
    row = t.counters.c
    tx.execute(sa.select(row.value).where(row.name == CHANGES).with_for_update())
    seen = _SEEN.first(tx)
    highest = max(seen.of_hosts, seen.of_instances, tx.execute(_LAST_EPOCH).scalar_one())
    missing = highest - last_change(tx)
    if missing > 0:
        tx.execute(sa.update(t.counters).where(row.name == CHANGES).values(value=row.value + missing))
