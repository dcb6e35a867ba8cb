"""What this zone has in a child zone by its own rows: one side of an edge."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.store import tables as t


@dataclass(frozen=True)
class PlaceBelow:
    """A place in a child zone, with the instance's status where it is its present one, else None."""

    uuid: str
    number: int
    state: PlacementState
    hold_expires_at: float
    status: InstanceStatus | None


def places_below(tx: Connection, child_id: str) -> list[PlaceBelow]:
    """All places in a child zone, over or not."""
    place, instance = t.placements.c, t.instances.c
    statement = (
        sa.select(place.uuid, place.number, place.state, place.hold_expires_at, instance.status)
        .outerjoin(t.instances, sa.and_(instance.uuid == place.uuid, instance.attempt == place.number))
        .where(place.child_id == child_id)
    )
    return [
        PlaceBelow(
            row.uuid,
            row.number,
            PlacementState(row.state),
            row.hold_expires_at,
            None if row.status is None else InstanceStatus(row.status),
        )
        for row in tx.execute(statement)
    ]
