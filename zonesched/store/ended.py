"""Pruning of ended boots: all rows of a boot are deleted together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import FINAL, InstanceStatus
from zonesched.store import locks
from zonesched.store import tables as t
from zonesched.store.metadata import UUID
from zonesched.store.prepared import Prepared, is_in
from zonesched.store.reservations import ReservationState

_instance, _place, _build, _reservation = (
    t.instances.c,
    t.placements.c,
    t.inbound_builds.c,
    t.reservations.c,
)
_after, _after_uuid = sa.bindparam("updated_at", type_=sa.Float), sa.bindparam("uuid", type_=sa.String)
_DELETED_AFTER = Prepared(
    sa.select(_instance.updated_at, _instance.uuid, _instance.reservation_id, _instance.caller_id)
    .where(_instance.status == InstanceStatus.DELETED.value)
    .where(_instance.updated_at >= _after, _instance.updated_at < sa.bindparam("before"))
    .where(
        sa.or_(
            _instance.updated_at > _after,
            sa.and_(_instance.updated_at == _after, _instance.uuid > _after_uuid),
        )
    )
    .order_by(_instance.updated_at, _instance.uuid)
    .limit(sa.bindparam("max_rows", type_=sa.Integer))
)
DELETED_BY_ADMIN = "deleted_by_admin"
"""Reason code of a DELETED instance whose parent has not learned of the deletion yet."""

Key = tuple[str, str]
"""Reservation id and caller id."""


@dataclass(frozen=True)
class Mark:
    """Position in the order in which instances were deleted."""

    updated_at: float = float("-inf")
    uuid: str = ""


@dataclass(frozen=True)
class PruneBounds:
    """Bounds of pruning: rows changed before `changed_before`, not retained beyond `now` (epoch seconds)."""

    zone_uuid: str
    changed_before: float
    now: float


def deleted_after(
    tx: Connection, mark: Mark, bounds: PruneBounds, count: int
) -> tuple[list[Key], Mark | None]:
    """Return the boots of the next `count` instances to prune and the position reached (None: the end)."""
    found = _DELETED_AFTER.all(
        tx, updated_at=mark.updated_at, uuid=mark.uuid, before=bounds.changed_before, max_rows=count
    )
    keys = sorted({(row.reservation_id, row.caller_id) for row in found})
    return keys, Mark(found[-1].updated_at, found[-1].uuid) if len(found) == count else None


def forget(tx: Connection, keys: Sequence[Key], bounds: PruneBounds) -> int:
    """Delete the boots among `keys` that have ended; return how many."""
    locks.boots(tx, keys)
    gone = _over(tx, keys, bounds)
    if gone:
        rows = [
            {"b_reservation": reservation_id, "b_caller": caller_id} for reservation_id, caller_id in gone
        ]
        for statement in _FORGET:
            tx.execute(statement, rows)
    return len(gone)


_MEMBER = (
    _instance.reservation_id == sa.bindparam("b_reservation"),
    _instance.caller_id == sa.bindparam("b_caller"),
)
_MEMBERS = sa.select(_instance.uuid).where(*_MEMBER)
_FORGET = (
    sa.delete(t.placements).where(_place.uuid.in_(_MEMBERS)),
    sa.delete(t.inbound_builds).where(
        _build.caller_id == sa.bindparam("b_caller"), _build.uuid.in_(_MEMBERS)
    ),
    sa.delete(t.instance_states).where(t.instance_states.c.uuid.in_(_MEMBERS)),
    sa.delete(t.instance_actions).where(t.instance_actions.c.uuid.in_(_MEMBERS)),
    sa.delete(t.instance_locks).where(t.instance_locks.c.uuid.in_(_MEMBERS)),
    sa.delete(t.moves).where(t.moves.c.uuid.in_(_MEMBERS)),
    sa.delete(t.instances).where(*_MEMBER),
    sa.delete(t.reservations).where(
        _reservation.id == sa.bindparam("b_reservation"), _reservation.caller_id == sa.bindparam("b_caller")
    ),
)


def _over(tx: Connection, keys: Sequence[Key], bounds: PruneBounds) -> list[Key]:
    """Return the boots that can be deleted: nobody can ask for them or must still be notified of them."""
    asked = sa.values(sa.column("id", UUID), sa.column("caller_id", UUID), name="boot").data(keys)
    boot = asked.cte().c
    member = _instance.reservation_id == boot.id, _instance.caller_id == boot.caller_id
    is_known = sa.or_(
        _instance.status != InstanceStatus.DELETED.value,
        _instance.updated_at >= bounds.changed_before,
        sa.and_(_instance.reason == DELETED_BY_ADMIN, boot.caller_id != bounds.zone_uuid),
    )
    is_open = (
        _reservation.id == boot.id,
        _reservation.caller_id == boot.caller_id,
        _reservation.state == ReservationState.OPEN.value,
    )
    is_retained = sa.or_(~is_in(_place.state, FINAL), _place.retained_until >= bounds.now)
    # The first row is enough: of a large boot one may run for long after all others were deleted.
    kept_by = (
        sa.exists().where(*member, is_known),
        sa.exists().where(*is_open),
        sa.exists().where(*member, _place.uuid == _instance.uuid, is_retained),
        sa.exists().where(*member, _build.uuid == _instance.uuid, _build.retained_until >= bounds.now),
    )
    over = sa.select(boot.id, boot.caller_id).where(*(~kept for kept in kept_by))
    return [(row.id, row.caller_id) for row in tx.execute(over)]
