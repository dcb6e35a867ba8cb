"""Admin states of hosts: enabled or disabled, and forced down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.aggregate import zone_of
from zonesched.store import claims, hosts, identity
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of

COLUMNS = t.hosts.c


@dataclass(frozen=True)
class HostAdminState:
    """Admin state of one host; `availability_zone` is the effective one."""

    id: str
    name: str
    availability_zone: str
    service_id: str
    enabled: bool
    disabled_reason: str
    forced_down: bool


def read_all(tx: Connection) -> list[HostAdminState]:
    """Read the admin states of all hosts, by name."""
    return _ALL.read(tx)


def read_named(tx: Connection, name: str) -> list[HostAdminState]:
    """Read the admin state of the host of that name, if it exists."""
    return _NAMED.read(tx, host_name=name)


def read_one(tx: Connection, host_id: str) -> HostAdminState | None:
    """Read the admin state of the host of that id."""
    return read_ids(tx, [host_id]).get(host_id)


def read_ids(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, HostAdminState]:
    """Read the admin states of these hosts, by id; unknown ids are left out."""
    return {said.id: said for said in _OF_IDS.read(tx, ids=host_ids)}


def disabled_reasons(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, str]:
    """Read the reasons for which these hosts are disabled, by id."""
    found: dict[str, str] = {}
    for some in claims.chunks(host_ids):
        rows = tx.execute(sa.select(COLUMNS.id, COLUMNS.disabled_reason).where(COLUMNS.id.in_(some)))
        found |= {row.id: row.disabled_reason for row in rows}
    return found


def write(tx: Connection, said: HostAdminState) -> None:
    """Store the admin state of a host that the caller has locked."""
    seq = identity.next_change(tx)
    values = {
        "enabled": said.enabled,
        "disabled_reason": said.disabled_reason,
        "forced_down": said.forced_down,
    }
    tx.execute(sa.update(t.hosts).where(COLUMNS.id == said.id).values(**values))
    claims.touch_hosts(tx, seq, [said.id])


class _AdminStatesOf:
    """Query of the admin states of the hosts that meet `which`, a condition on `hosts`, by name."""

    def __init__(self, which: sa.ColumnElement[bool]) -> None:
        self._hosts = Prepared(
            sa.select(
                COLUMNS.id,
                COLUMNS.name,
                COLUMNS.availability_zone,
                COLUMNS.service_id,
                COLUMNS.enabled,
                COLUMNS.disabled_reason,
                COLUMNS.forced_down,
            )
            .where(which)
            .order_by(COLUMNS.name)
        )
        self._aggregates = hosts.AggregatesOf(which)

    def read(self, tx: Connection, **values: Any) -> list[HostAdminState]:
        """Read the admin states now; `values` are the parameters of the condition."""
        aggregates = self._aggregates.read(tx, **values)
        return [
            HostAdminState(
                id=row.id,
                name=row.name,
                availability_zone=zone_of(aggregates.get(row.id, ()), row.availability_zone),
                service_id=row.service_id,
                enabled=bool(row.enabled),
                disabled_reason=row.disabled_reason,
                forced_down=bool(row.forced_down),
            )
            for row in self._hosts.all(tx, **values)
        ]


_ALL = _AdminStatesOf(sa.true())
_NAMED = _AdminStatesOf(COLUMNS.name == sa.bindparam("host_name"))
_OF_IDS = _AdminStatesOf(one_of(COLUMNS.id, "ids"))
