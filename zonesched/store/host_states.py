"""What operators say of a host: whether it may take instances, and whether it is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.aggregate import zone_of
from zonesched.store import claims, hosts, identity
from zonesched.store import tables as t

COLUMNS = t.hosts.c


@dataclass(frozen=True)
class OperatorsWord:
    """A host as its operators see it; `availability_zone` is the one that counts."""

    id: str
    name: str
    availability_zone: str
    service_id: str
    enabled: bool
    disabled_reason: str
    forced_down: bool


def read_all(tx: Connection) -> list[OperatorsWord]:
    """Of all hosts, by name."""
    return _read(tx, sa.true())


def read_named(tx: Connection, name: str) -> list[OperatorsWord]:
    """Of the host of that name, if there is one."""
    return _read(tx, COLUMNS.name == name)


def read_one(tx: Connection, host_id: str) -> OperatorsWord | None:
    """Of the host of that id."""
    return next(iter(_read(tx, COLUMNS.id == host_id)), None)


def read_ids(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, OperatorsWord]:
    """Of those of these hosts that there are, by id."""
    return {said.id: said for some in claims.chunks(host_ids) for said in _read(tx, COLUMNS.id.in_(some))}


def disabled_reasons(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, str]:
    """Why these hosts are disabled, by id."""
    found: dict[str, str] = {}
    for some in claims.chunks(host_ids):
        rows = tx.execute(sa.select(COLUMNS.id, COLUMNS.disabled_reason).where(COLUMNS.id.in_(some)))
        found |= {row.id: row.disabled_reason for row in rows}
    return found


def write(tx: Connection, said: OperatorsWord) -> None:
    """Let this be what operators say of the host."""
    seq = identity.next_change(tx)
    values = {
        "enabled": said.enabled,
        "disabled_reason": said.disabled_reason,
        "forced_down": said.forced_down,
    }
    tx.execute(sa.update(t.hosts).where(COLUMNS.id == said.id).values(**values))
    claims.touch_hosts(tx, seq, [said.id])


def _read(tx: Connection, which: sa.ColumnElement[bool]) -> list[OperatorsWord]:
    statement = sa.select(
        COLUMNS.id,
        COLUMNS.name,
        COLUMNS.availability_zone,
        COLUMNS.service_id,
        COLUMNS.enabled,
        COLUMNS.disabled_reason,
        COLUMNS.forced_down,
    )
    aggregates = hosts.aggregates_of(tx, which)
    return [
        OperatorsWord(row.id, row.name, zone_of(aggregates.get(row.id, ()), row.availability_zone), *row[3:])
        for row in tx.execute(statement.where(which).order_by(COLUMNS.name))
    ]
