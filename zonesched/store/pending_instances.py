"""The instances of a boot that are not built yet, counted by the place that they have or wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import BUILDING_STATUSES, InstanceStatus, PlacementState
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in, one_of

_instance, _place = t.instances.c, t.placements.c
_COUNTS = Prepared(
    sa.select(
        sa.func.coalesce(_place.state, PlacementState.GONE.value).label("state"),
        sa.func.coalesce(_place.child_id, "").label("child_id"),
        sa.func.count().label("count"),
    )
    .select_from(t.instances)
    .outerjoin(t.placements, sa.and_(_place.uuid == _instance.uuid, _place.number == _instance.attempt))
    .where(_instance.reservation_id == sa.bindparam("reservation"))
    .where(_instance.caller_id == sa.bindparam("caller"), is_in(_instance.status, BUILDING_STATUSES))
    .group_by(_place.state, _place.child_id)
)
_NEVER_PLACED = sa.and_(_instance.status == InstanceStatus.BUILD.value, _instance.attempt == 0)
_COUNT_NEVER_PLACED = Prepared(
    # Not as a condition: SQLite would look for all instances of this status.
    sa.select(sa.func.coalesce(sa.func.sum(sa.case((_NEVER_PLACED, 1), else_=0)), 0).label("count")).where(
        one_of(_instance.uuid, "uuids")
    )
)


@dataclass(frozen=True)
class PendingInstances:
    """A number of instances whose present places are in one state, in the same child zone or in none.

    `child_id` is "" for local hosts. An instance that never had a place counts as one whose place is GONE.
    """

    state: PlacementState
    child_id: str
    count: int


def count(tx: Connection, caller_id: str, reservation_id: str) -> list[PendingInstances]:
    """Count the pending instances of a boot by the state and the child zone of their present places."""
    rows = _COUNTS.all(tx, reservation=reservation_id, caller=caller_id)
    return [PendingInstances(PlacementState(row.state), row.child_id, row.count) for row in rows]


def count_never_placed(tx: Connection, uuids: Sequence[str]) -> int:
    """Count the instances among these that are to be built and never had a place."""
    return int(_COUNT_NEVER_PLACED.first(tx, uuids=uuids)[0])
