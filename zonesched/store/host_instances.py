"""Instances that are placed on hosts of this zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import CLAIMING
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in, one_of

_place, _instance = t.placements.c, t.instances.c
_ON_HOSTS = Prepared(
    sa.select(_place.host_id, _instance.uuid, _instance.name)
    .select_from(t.placements.join(t.instances, _instance.uuid == _place.uuid))
    .where(
        one_of(_place.host_id, "hosts"),
        is_in(_place.state, CLAIMING),
        _place.number == _instance.attempt,
    )
    .order_by(_place.host_id, _instance.uuid)
)

_COUNT_ON_HOSTS = Prepared(
    sa.select(_place.host_id, sa.func.count().label("count"))
    .where(one_of(_place.host_id, "hosts"), is_in(_place.state, CLAIMING))
    .group_by(_place.host_id)
)
_COUNT = Prepared(
    sa.select(sa.func.count().label("count"))
    .select_from(t.placements)
    .where(_place.host_id.is_not(None), is_in(_place.state, CLAIMING))
)


@dataclass(frozen=True)
class Placed:
    """An instance on a host."""

    uuid: str
    name: str


def on_hosts(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, Sequence[Placed]]:
    """Read the instances that hold resources on these hosts, by host id."""
    found: defaultdict[str, list[Placed]] = defaultdict(list)
    for row in _ON_HOSTS.all(tx, hosts=host_ids):
        found[row.host_id].append(Placed(row.uuid, row.name))
    return found


def count_on(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, int]:
    """Count the instances that hold resources on these hosts, by host id; a host without any is left out."""
    return {row.host_id: int(row.count) for row in _COUNT_ON_HOSTS.all(tx, hosts=host_ids)}


def hosts_of(tx: Connection, caller_id: str, project_id: str, uuids: Collection[str]) -> frozenset[str]:
    """Read the local hosts of the instances among `uuids` that this caller and project own."""
    if not uuids:
        return frozenset()
    statement = (
        sa.select(_place.host_id)
        .join(t.instances, _instance.uuid == _place.uuid)
        .where(_instance.uuid.in_(sorted(uuids)))
        .where(_instance.caller_id == caller_id, _instance.project_id == project_id)
        .where(_place.kind == "host", is_in(_place.state, CLAIMING))
    )
    return frozenset(tx.execute(statement).scalars())


def count(tx: Connection) -> int:
    """Count the instances that hold resources on any host."""
    found = _COUNT.first(tx)
    return int(found.count) if found else 0
