"""Feed of a parent: all changes of its instances, in order of their change numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import (
    BUILD_STATE_OF,
    BUILDING_STATUSES,
    TO_BUILD,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.store import claims, inbound
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in


@dataclass(frozen=True)
class ChangeLine:
    """One change and the number of the transaction that wrote it."""

    seq: int
    change: InstanceChange


_place, _instance, _build = t.placements.c, t.instances.c, t.inbound_builds.c

_LINES = (
    sa.select(
        _instance.uuid,
        _instance.status,
        _instance.reason,
        _instance.changed_seq,
        _build.attempt,
        _build.rest,
        _place.state,
        _place.reason.label("place_reason"),
    )
    .join(
        t.inbound_builds,
        sa.and_(
            _build.uuid == _instance.uuid,
            _build.caller_id == _instance.caller_id,
            _build.number == _instance.attempt,
        ),
    )
    .join(t.placements, sa.and_(_place.uuid == _instance.uuid, _place.number == _instance.attempt))
)

_LATER = sa.or_(
    _instance.changed_seq > sa.bindparam("after_seq"),
    sa.and_(_instance.changed_seq == sa.bindparam("after_seq"), _instance.uuid > sa.bindparam("after_uuid")),
)
_CHANGES = Prepared(
    _LINES.where(_instance.caller_id == sa.bindparam("caller"), _LATER)
    .where(_instance.changed_seq <= sa.bindparam("until_seq"))
    .order_by(_instance.changed_seq, _instance.uuid)
    .limit(sa.bindparam("most"))
)


def changes(
    tx: Connection, caller_id: str, after_seq: int, after_uuid: str, until_seq: int, limit: int
) -> list[ChangeLine]:
    """Return a caller's instances that changed after (seq, uuid), in that order, with the attempt it knows.

    `until_seq` is the value of `identity.low_watermark`, read before.
    """
    rows = _CHANGES.all(
        tx, caller=caller_id, after_seq=after_seq, after_uuid=after_uuid, until_seq=until_seq, most=limit
    )
    return [ChangeLine(row.changed_seq, _change(row)) for row in rows]


def current(tx: Connection, caller_id: str, uuids: Sequence[str]) -> Mapping[str, InstanceChange]:
    """Read the current feed line of each of this caller's instances among `uuids`, by uuid."""
    found: dict[str, InstanceChange] = {}
    for some in claims.chunks(uuids):
        rows = tx.execute(_LINES.where(_instance.caller_id == caller_id, _instance.uuid.in_(some)))
        found |= {row.uuid: _change(row) for row in rows}
    return found


def _change(row: Any) -> InstanceChange:
    state = BUILD_STATE_OF[PlacementState(row.state)]
    if state is BuildState.FAILED and row.rest != inbound.NOTHING_LEFT:
        # Another entry of the build is still to be tried: only a final failure is reported.
        state = BuildState.PENDING
    reason = row.reason or (row.place_reason if state is BuildState.FAILED else "")
    return InstanceChange(row.uuid, row.attempt, InstanceStatus(row.status), state, reason)


_IN_CHILD = sa.select(_place.uuid).where(
    _place.uuid == _instance.uuid,
    _place.number == _instance.attempt,
    _place.kind == "child",
    is_in(_place.state, TO_BUILD),
)
# Starts from the few unfinished instances, not from all placements.
_NEWEST_UNFINISHED = Prepared(
    sa.select(sa.func.max(_instance.updated_at).label("sent_at")).where(
        is_in(_instance.status, BUILDING_STATUSES),
        _IN_CHILD.exists(),
    )
)


def newest_unfinished_in_children(tx: Connection) -> float:
    """Return when the last unfinished build of a child was sent (epoch seconds; -infinity without one)."""
    found = _NEWEST_UNFINISHED.first(tx).sent_at
    return float("-inf") if found is None else float(found)
