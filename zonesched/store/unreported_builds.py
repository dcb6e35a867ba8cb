"""Builds on local hosts that no agent has reported yet."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.observed_state import Power
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of

_place, _instance, _host, _service = t.placements.c, t.instances.c, t.hosts.c, t.services.c
_state = t.instance_states.c
_IS_SHELVED = (
    sa.select(_state.uuid).where(_state.uuid == _place.uuid, _state.power == Power.OFFLOADED.value).exists()
)
_UNREPORTED = (
    sa.select(_place.uuid)
    .join(t.instances, sa.and_(_instance.uuid == _place.uuid, _instance.attempt == _place.number))
    .where(_instance.status == InstanceStatus.BUILD.value)
    .where(_place.kind == "host")
    .where(
        sa.or_(
            _place.state == PlacementState.CONFIRMED.value,
            # Shelved before its agent has reported it, or has ever heard of it.
            sa.and_(_place.state == PlacementState.RELEASING.value, _IS_SHELVED),
        )
    )
    .order_by(_instance.updated_at, _instance.uuid)
    .limit(sa.bindparam("max_rows"))
)
_OVERDUE = Prepared(_UNREPORTED.where(_instance.updated_at < sa.bindparam("placed_before")))
_UNFETCHED = Prepared(_UNREPORTED.where(one_of(_place.host_id, "hosts"), _place.is_fetched == sa.false()))
_DOWN_SERVICES = sa.select(_service.id).where(
    sa.or_(
        _service.forced_down,
        _service.last_seen_at < sa.bindparam("heard_after"),
        sa.and_(
            _service.last_seen_at > sa.bindparam("heard_before"),
            sa.not_(_service.last_seen_at.between(sa.bindparam("fast_after"), sa.bindparam("fast_before"))),
        ),
    )
)
# Two parts, each by an index: hosts are many, and few are down.
_DOWN_HOSTS = Prepared(
    sa.union(
        sa.select(_host.id).where(_host.forced_down),
        sa.select(_host.id).where(_host.service_id.in_(_DOWN_SERVICES)),
    )
)


@dataclass(frozen=True)
class Bounds:
    """Times in epoch seconds.

    A build placed before `placed_before` is overdue; an agent is down unless its last heartbeat is between
    `heard_after` and `heard_before`, or was written within that time by a clock that was `ahead_s` ahead and
    has been set back since.
    """

    placed_before: float
    heard_after: float
    heard_before: float
    ahead_s: float


def lost(tx: Connection, bounds: Bounds, limit: int) -> list[str]:
    """Read at most `limit` instances whose build is overdue, or unfetched while its agent is down."""
    overdue = _OVERDUE.all(tx, placed_before=bounds.placed_before, max_rows=limit)
    if overdue:
        return [row.uuid for row in overdue]
    # Starts from the hosts that are down, mostly none: builds may be many.
    after, before = bounds.heard_after, bounds.heard_before
    fast = {"fast_after": after + bounds.ahead_s, "fast_before": before + bounds.ahead_s}
    down = _DOWN_HOSTS.all(tx, heard_after=after, heard_before=before, **fast)
    if not down:
        return []
    return [row.uuid for row in _UNFETCHED.all(tx, hosts=[row.id for row in down], max_rows=limit)]
