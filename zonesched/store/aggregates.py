"""Aggregates and their hosts.

A change takes effect on the hosts at once: it writes their capacities and marks them as changed, so that
tables in memory read them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import capacities, claims, identity, locks
from zonesched.store import tables as t
from zonesched.store.sorted_json import sorted_json

COLUMNS, MEMBERS = t.aggregates.c, t.aggregate_hosts.c


@dataclass(frozen=True)
class StoredAggregate:
    """One aggregate; `number` is what OpenStack's clients know as its id. Times are epoch seconds."""

    id: str
    number: int
    name: str
    metadata: Mapping[str, str]
    created_at: float
    updated_at: float


def insert(tx: Connection, aggregate: StoredAggregate) -> None:
    """Add an aggregate without hosts; raises IntegrityError for a name in use."""
    tx.execute(
        sa.insert(t.aggregates).values(**{**vars(aggregate), "metadata": sorted_json(aggregate.metadata)})
    )


def read_all(tx: Connection) -> list[StoredAggregate]:
    """Read all aggregates, by number."""
    return _read(tx, sa.true())


def read_one(tx: Connection, number: int) -> StoredAggregate | None:
    """Read the aggregate of that number, if it exists."""
    return next(iter(_read(tx, COLUMNS.number == number)), None)


def read_by_name(tx: Connection, name: str) -> StoredAggregate | None:
    """Read the aggregate of that name, if it exists."""
    return next(iter(_read(tx, COLUMNS.name == name)), None)


def host_names(tx: Connection) -> Mapping[str, Sequence[str]]:
    """Read the sorted names of each aggregate's hosts, by the aggregate's id."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    statement = sa.select(MEMBERS.aggregate_id, t.hosts.c.name).join(t.hosts).order_by(t.hosts.c.name)
    for aggregate_id, name in tx.execute(statement):
        names[aggregate_id].append(name)
    return names


def hosts_of(tx: Connection, aggregate_id: str) -> Mapping[str, str]:
    """Read the names of one aggregate's hosts by host id, in order of name."""
    statement = (
        sa.select(t.hosts.c.id, t.hosts.c.name)
        .join(t.aggregate_hosts)
        .where(MEMBERS.aggregate_id == aggregate_id)
        .order_by(t.hosts.c.name)
    )
    return {row.id: row.name for row in tx.execute(statement)}


def with_hosts(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, Sequence[StoredAggregate]]:
    """Read the aggregates, by number, of each of these hosts that is in an aggregate."""
    known = {aggregate.id: aggregate for aggregate in read_all(tx)}
    found: defaultdict[str, list[StoredAggregate]] = defaultdict(list)
    for some in claims.chunks(host_ids):
        for row in tx.execute(sa.select(t.aggregate_hosts).where(MEMBERS.host_id.in_(some))):
            found[row.host_id].append(known[row.aggregate_id])
    return {host_id: sorted(several, key=lambda one: one.number) for host_id, several in found.items()}


def change(tx: Connection, changed: StoredAggregate) -> None:
    """Write an aggregate's name, metadata and time of change."""
    seq = identity.next_change(tx)
    values = {
        "name": changed.name,
        "metadata": sorted_json(changed.metadata),
        "updated_at": changed.updated_at,
    }
    tx.execute(sa.update(t.aggregates).where(COLUMNS.id == changed.id).values(**values))
    host_ids = list(hosts_of(tx, changed.id))
    locks.hosts(tx, host_ids)
    _changed(tx, seq, host_ids)


def delete(tx: Connection, aggregate_id: str) -> None:
    """Delete an aggregate, which must have no hosts."""
    tx.execute(sa.delete(t.aggregates).where(COLUMNS.id == aggregate_id))


def add_host(tx: Connection, aggregate_id: str, host_id: str) -> None:
    """Put a host, which the caller has locked, into an aggregate; raises IntegrityError if it is there."""
    seq = identity.next_change(tx)
    tx.execute(sa.insert(t.aggregate_hosts).values(aggregate_id=aggregate_id, host_id=host_id))
    _changed(tx, seq, [host_id])


def remove_host(tx: Connection, aggregate_id: str, host_id: str) -> None:
    """Take a host, which the caller has locked, out of an aggregate."""
    seq = identity.next_change(tx)
    here = sa.and_(MEMBERS.aggregate_id == aggregate_id, MEMBERS.host_id == host_id)
    tx.execute(sa.delete(t.aggregate_hosts).where(here))
    _changed(tx, seq, [host_id])


def _changed(tx: Connection, seq: int, host_ids: Sequence[str]) -> None:
    capacities.recompute(tx, host_ids)
    claims.touch_hosts(tx, seq, host_ids)


def _read(tx: Connection, condition: sa.ColumnElement[bool]) -> list[StoredAggregate]:
    statement = sa.select(t.aggregates).where(condition).order_by(COLUMNS.number)
    return [
        StoredAggregate(**{**row, "metadata": orjson.loads(row["metadata"])})
        for row in tx.execute(statement).mappings()
    ]
