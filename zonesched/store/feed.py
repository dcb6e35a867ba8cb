"""What a parent is told: changes of its instances in the order they were written."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceChange, InstanceStatus, PlacementState
from zonesched.store import tables as t


@dataclass(frozen=True)
class ChangeLine:
    """One change and the number of the transaction that wrote it."""

    seq: int
    change: InstanceChange


def changes(tx: Connection, caller_id: str, after_seq: int, after_uuid: str, limit: int) -> list[ChangeLine]:
    """A caller's instances that changed after (seq, uuid), in that order, with the attempt it knows."""
    instance, build = t.instances.c, t.inbound_builds.c
    later = sa.or_(
        instance.changed_seq > after_seq,
        sa.and_(instance.changed_seq == after_seq, instance.uuid > after_uuid),
    )
    statement = (
        sa.select(instance.uuid, instance.status, instance.reason, instance.changed_seq, build.attempt)
        .join(
            t.inbound_builds,
            sa.and_(
                build.uuid == instance.uuid,
                build.caller_id == instance.caller_id,
                build.number == instance.attempt,
            ),
        )
        .where(instance.caller_id == caller_id, later)
        .order_by(instance.changed_seq, instance.uuid)
        .limit(limit)
    )
    return [
        ChangeLine(
            row.changed_seq,
            InstanceChange(row.uuid, row.attempt, InstanceStatus(row.status), row.reason),
        )
        for row in tx.execute(statement)
    ]


def has_unfinished_below(tx: Connection) -> bool:
    """Whether a child still builds anything, or owes an answer."""
    place, instance = t.placements.c, t.instances.c
    building = (
        sa.select(place.uuid)
        .join(t.instances, sa.and_(instance.uuid == place.uuid, instance.attempt == place.number))
        .where(place.kind == "child", place.state == PlacementState.CONFIRMED.value)
        .where(instance.status.in_([InstanceStatus.BUILD.value, InstanceStatus.UNKNOWN.value]))
        .limit(1)
    )
    return tx.execute(building).first() is not None
