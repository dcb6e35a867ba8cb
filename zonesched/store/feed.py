"""Feed of a parent: all changes of its instances, window by window.

A window is a range of change numbers, read in the order of the instances' uuids: the order of the changes
would show which instances are in the same zone below. An instance that changes again leaves its window
for a later one, so no change is missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.observed_state import NO_MOVES
from zonesched.model.placement import (
    BUILD_STATE_OF,
    BUILDING_STATUSES,
    TO_BUILD,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.store import inbound, instance_states
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in, one_of

WINDOW = 10_000
"""Changes after which a window ends, with the last one's transaction."""


@dataclass(frozen=True)
class Window:
    """Change numbers above `after` up to `until`, of which a parent has read those up to `uuid`."""

    after: int
    until: int
    uuid: str = ""


NO_END = 2**63 - 1
"""Change number that no transaction gets."""

_place, _instance, _build = t.placements.c, t.instances.c, t.inbound_builds.c

_LINES = (
    sa.select(
        _instance.uuid,
        _instance.caller_id,
        _instance.status,
        _instance.reason,
        _build.attempt,
        _build.rest,
        _place.state,
        _place.reason.label("place_reason"),
        *[c for c in t.instance_states.c if c.name != "uuid"],
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
    .outerjoin(t.instance_states, t.instance_states.c.uuid == _instance.uuid)
)

# The caller is compared afterwards: else SQLite would walk all of its instances.
_CURRENT = Prepared(_LINES.where(one_of(_instance.uuid, "uuids")))
_IN_WINDOW = (
    _instance.caller_id == sa.bindparam("caller"),
    _instance.changed_seq > sa.bindparam("after_seq"),
    _instance.changed_seq <= sa.bindparam("until_seq"),
)
_NEXT_UUIDS = Prepared(
    sa.select(_instance.uuid)
    .where(*_IN_WINDOW, _instance.uuid > sa.bindparam("after_uuid"))
    .order_by(_instance.uuid)
    .limit(sa.bindparam("limit"))
)
_NEXT_SEQS = (
    sa.select(_instance.changed_seq)
    .where(*_IN_WINDOW)
    .order_by(_instance.changed_seq)
    .limit(sa.bindparam("limit"))
    .subquery()
)
_WINDOW_END = Prepared(sa.select(sa.func.max(_NEXT_SEQS.c.changed_seq).label("seq")))


def next_window(tx: Connection, caller_id: str, after: int, watermark: int) -> Window | None:
    """Return the window of a caller's next changes after this number; None where there are none.

    `watermark` is the value of `identity.low_watermark`, read before.
    """
    row = _WINDOW_END.first(tx, caller=caller_id, after_seq=after, until_seq=watermark, limit=WINDOW)
    return None if row.seq is None else Window(after, int(row.seq))


def next_uuids(tx: Connection, caller_id: str, window: Window, limit: int) -> list[str]:
    """Return the next uuids of a window, in order."""
    rows = _NEXT_UUIDS.all(
        tx,
        caller=caller_id,
        after_seq=window.after,
        until_seq=window.until,
        after_uuid=window.uuid,
        limit=limit,
    )
    return [row.uuid for row in rows]


def current(tx: Connection, caller_id: str, uuids: Sequence[str]) -> Mapping[str, InstanceChange]:
    """Read the current feed line of each of this caller's instances among `uuids`, by uuid."""
    rows = _CURRENT.all(tx, uuids=uuids)
    return {row.uuid: _change(row) for row in rows if row.caller_id == caller_id}


def _change(row: Any) -> InstanceChange:
    state = BUILD_STATE_OF[PlacementState(row.state)]
    if state is BuildState.FAILED and row.rest != inbound.NOTHING_LEFT:
        # Another entry of the build is still to be tried: only a final failure is reported.
        state = BuildState.PENDING
    reason = row.reason or (row.place_reason if state is BuildState.FAILED else "")
    known = None if row.generation is None else instance_states.state_of(row)
    return InstanceChange(
        row.uuid,
        row.attempt,
        InstanceStatus(row.status),
        state,
        reason,
        observed=None if known is None else known.observed,
        moves=NO_MOVES if known is None else known.moves,
    )


_IN_CHILD = sa.select(_place.uuid).where(
    _place.uuid == _instance.uuid,
    _place.number == _instance.attempt,
    _place.kind == "child",
    is_in(_place.state, TO_BUILD),
)
_A_CHILD = Prepared(sa.select(t.children.c.id).limit(1))
# Starts from the newest: an aggregate would read all unfinished instances.
_NEWEST_UNFINISHED = Prepared(
    sa.select(_instance.updated_at)
    .where(_instance.status == sa.bindparam("status"), _IN_CHILD.exists())
    .order_by(_instance.updated_at.desc())
    .limit(1)
)


def newest_unfinished_in_children(tx: Connection) -> float:
    """Return when the last unfinished build of a child was sent (epoch seconds; -infinity without one)."""
    if _A_CHILD.first(tx) is None:
        # Else all that the zone itself builds would be read, in search of one of a child.
        return float("-inf")
    found = [_NEWEST_UNFINISHED.first(tx, status=status.value) for status in BUILDING_STATUSES]
    return max((float(row.updated_at) for row in found if row is not None), default=float("-inf"))
