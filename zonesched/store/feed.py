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


_place, _instance = t.placements.c, t.instances.c
_IN_CHILD = sa.select(_place.uuid).where(
    _place.uuid == _instance.uuid,
    _place.number == _instance.attempt,
    _place.kind == "child",
    _place.state.in_([PlacementState.CONFIRMING.value, PlacementState.CONFIRMED.value]),
)
# From the few that are unfinished to their places, and not from all that is built.
_NEWEST_UNFINISHED = sa.select(sa.func.max(_instance.updated_at)).where(
    _instance.status.in_([InstanceStatus.BUILD.value, InstanceStatus.UNKNOWN.value]), _IN_CHILD.exists()
)


def newest_unfinished_below(tx: Connection) -> float:
    """When the last of what children still build was sent (epoch seconds; -infinity if nothing is)."""
    found = tx.execute(_NEWEST_UNFINISHED).scalar()
    return float("-inf") if found is None else float(found)
