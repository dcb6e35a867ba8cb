"""Placements of this zone in its child zones, as this zone's rows have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import (
    LIVING_STATUSES,
    NOT_KEPT,
    PROMISED,
    TO_BUILD,
    UNANSWERED,
    UNBUILT,
    ZONE_LOST,
    InstanceStatus,
    PlacementState,
)
from zonesched.store import placements
from zonesched.store import tables as t
from zonesched.store.placements import Placement
from zonesched.store.prepared import Prepared, is_in, one_of


def _count(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0))


_MAKE_CALLS_DUE = Prepared(
    sa.update(t.placements)
    .where(is_in(t.placements.c.state, UNANSWERED), one_of(t.placements.c.child_id, "children"))
    .values(next_call_at=0.0, calls=0)
)
_place, _instance = t.placements.c, t.instances.c
_has_other_reason = sa.and_(*(_place.reason != reason for reason in sorted(NOT_KEPT)))
_is_broken = (
    is_in(_place.state, UNBUILT)
    & ((_place.state == PlacementState.FAILED.value) | _has_other_reason)
    & (_place.retained_until > sa.bindparam("now"))
)
_BROKEN_PROMISES = Prepared(
    sa.select(_place.child_id)
    .where(_place.reservation_id == sa.bindparam("reservation"), _place.caller_id == sa.bindparam("caller"))
    .where(_place.kind == "child")
    .group_by(_place.child_id)
    .having(_count(_is_broken) > _count(is_in(_place.state, PROMISED)))
)
# Without the child as a condition: for it SQLite would read all places in the child.
_OF_INSTANCES = Prepared(
    sa.select(
        _place.uuid,
        _place.number,
        _place.state,
        _place.hold_expires_at,
        _place.child_id,
        _instance.status,
    )
    .outerjoin(t.instances, sa.and_(_instance.uuid == _place.uuid, _instance.attempt == _place.number))
    .where(one_of(_place.uuid, "uuids"))
)
_LOST = Prepared(
    sa.select(t.placements.c.uuid, t.placements.c.number).where(
        one_of(t.placements.c.uuid, "uuids"),
        t.placements.c.kind == "child",
        t.placements.c.reason == ZONE_LOST,
        t.placements.c.child_id.not_in(sa.select(t.children.c.id)),
    )
)


_NAMED = TO_BUILD | {PlacementState.RELEASING}


@dataclass(frozen=True)
class PlaceInChild:
    """A place in a child zone, with the instance's status where it is its present one, else None."""

    uuid: str
    number: int
    state: PlacementState
    hold_expires_at: float
    status: InstanceStatus | None


def living_in_child(tx: Connection, child_id: str) -> dict[str, int]:
    """Read the instances that run or are built in a child zone: their confirmed attempt by uuid."""
    statement = (
        sa.select(_place.uuid, _place.number)
        .join(t.instances, sa.and_(_instance.uuid == _place.uuid, _instance.attempt == _place.number))
        .where(
            _place.child_id == child_id,
            _place.state == PlacementState.CONFIRMED.value,
            is_in(_instance.status, LIVING_STATUSES),
        )
    )
    return {row.uuid: row.number for row in tx.execute(statement)}


def named_to_child(tx: Connection, child_id: str) -> list[Placement]:
    """Read the places in a child whose confirm was decided, boot by boot.

    Those that it is to end too, unless the instance has another place there: it ends what it knows.
    """
    found = placements.read(tx, _place.child_id == child_id, is_in(_place.state, _NAMED))
    in_order = sorted(found, key=lambda p: (p.state in TO_BUILD, p.number))
    last = {p.uuid: p for p in in_order}
    return sorted(last.values(), key=lambda p: (p.caller_id, p.reservation_id, p.uuid))


def unreliable_children(tx: Connection, caller_id: str, reservation_id: str, now: float) -> frozenset[str]:
    """Read the children that broke more promises to this reservation than they keep.

    A hold that this zone did not keep counts neither way, nor does a promise that is no longer retained.
    """
    rows = _BROKEN_PROMISES.all(tx, reservation=reservation_id, caller=caller_id, now=now)
    return frozenset(row.child_id for row in rows)


def count_in_child(tx: Connection, child_id: str) -> int:
    """Count all places in a child zone, ended ones included."""
    statement = sa.select(sa.func.count()).where(t.placements.c.child_id == child_id)
    return int(tx.execute(statement).scalar_one())


def count_in_children(tx: Connection) -> int:
    """Count all places in child zones, ended ones included."""
    statement = sa.select(sa.func.count()).where(t.placements.c.child_id.is_not(None))
    return int(tx.execute(statement).scalar_one())


def places_in_child(tx: Connection, child_id: str, uuids: Sequence[str]) -> list[PlaceInChild]:
    """Read the places of these instances in a child zone, ended ones included."""
    return [
        PlaceInChild(
            row.uuid,
            row.number,
            PlacementState(row.state),
            row.hold_expires_at,
            None if row.status is None else InstanceStatus(row.status),
        )
        for row in _OF_INSTANCES.all(tx, uuids=uuids)
        if row.child_id == child_id
    ]


def lost_with_child(tx: Connection, uuids: Sequence[str]) -> frozenset[tuple[str, int]]:
    """Read the (uuid, number) of these instances' places that ended because their child zone was removed."""
    return frozenset((row.uuid, row.number) for row in _LOST.all(tx, uuids=uuids))


def move_to_child(tx: Connection, placement: Placement, child_id: str) -> None:
    """Move a place to the child's present registration, which has another id than the former one."""
    place = t.placements.c
    this = sa.and_(place.uuid == placement.uuid, place.number == placement.number)
    tx.execute(sa.update(t.placements).where(this).values(child_id=child_id))


def make_calls_due(tx: Connection, child_ids: Sequence[str]) -> None:
    """Make all pending calls to these children due now and reset their retry pauses."""
    _MAKE_CALLS_DUE.run(tx, children=child_ids)
