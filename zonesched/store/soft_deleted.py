"""Instances that their owners have deleted and may still restore."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.store import instance_states
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of

_STATE, _instance = t.instance_states.c, t.instances.c
_SET = Prepared(
    sa.update(t.instance_states)
    .where(one_of(_STATE.uuid, "uuids"))
    .values(
        reclaim_at=sa.bindparam("reclaim_at", type_=sa.Float),
        reclaim_after=sa.bindparam("reclaim_after", type_=sa.Float),
    )
)
_DUE = Prepared(
    sa.select(_STATE.uuid)
    .join_from(t.instance_states, t.instances, _instance.uuid == _STATE.uuid)
    .where(sa.text("reclaim_at > 0"), _STATE.reclaim_at <= sa.bindparam("now"))
    .where(sa.func.coalesce(_instance.status, "") != InstanceStatus.DELETED.value)
    .order_by(_STATE.reclaim_at, _STATE.uuid)
    .limit(sa.bindparam("most"))
    .offset(sa.bindparam("skip"))
)


def keep(tx: Connection, uuids: Sequence[str], now: float, seconds: float) -> None:
    """Note that instances that have a state are deleted for good in so many seconds."""
    _SET.run(tx, uuids=uuids, reclaim_at=now + seconds, reclaim_after=seconds)


def forget(tx: Connection, uuids: Sequence[str]) -> None:
    """Note that instances are not to be deleted for good, or are already."""
    _SET.run(tx, uuids=uuids, reclaim_at=0.0, reclaim_after=0.0)


def due(tx: Connection, now: float, most: int, skip: int) -> list[str]:
    """Return at most so many instances that are to be deleted for good, after the first `skip`."""
    return [row.uuid for row in _DUE.all(tx, now=now, most=most, skip=skip)]


def is_due(tx: Connection, uuid: str, now: float) -> bool:
    """Tell whether an instance is to be deleted for good."""
    row = instance_states.read(tx, [uuid]).get(uuid)
    return row is not None and 0 < row.state.reclaim_at <= now
