"""Pruning of ended boots: all rows of a boot are deleted together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import FINAL, InstanceStatus
from zonesched.store import claims, locks
from zonesched.store import tables as t
from zonesched.store.prepared import is_in
from zonesched.store.reservations import ReservationState

_instance, _place, _build, _reservation = (
    t.instances.c,
    t.placements.c,
    t.inbound_builds.c,
    t.reservations.c,
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
    later = sa.or_(
        _instance.updated_at > mark.updated_at,
        sa.and_(_instance.updated_at == mark.updated_at, _instance.uuid > mark.uuid),
    )
    found = tx.execute(
        sa.select(_instance.updated_at, _instance.uuid, _instance.reservation_id, _instance.caller_id)
        .where(_instance.status == InstanceStatus.DELETED.value)
        .where(_instance.updated_at >= mark.updated_at, _instance.updated_at < bounds.changed_before, later)
        .order_by(_instance.updated_at, _instance.uuid)
        .limit(count)
    ).all()
    keys = sorted({(row.reservation_id, row.caller_id) for row in found})
    return keys, Mark(found[-1].updated_at, found[-1].uuid) if len(found) == count else None


def forget(tx: Connection, keys: Sequence[Key], bounds: PruneBounds) -> int:
    """Delete the boots among `keys` that have ended; return how many."""
    locks.boots(tx, keys)
    gone = [key for key in keys if _is_over(tx, key, bounds)]
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


def _is_over(tx: Connection, key: Key, bounds: PruneBounds) -> bool:
    """Tell whether the boot can be deleted: nobody can still ask for it or must still be notified of it."""
    reservation_id, caller_id = key
    of_boot = _instance.reservation_id == reservation_id, _instance.caller_id == caller_id
    is_kept = sa.or_(
        _instance.status != InstanceStatus.DELETED.value, _instance.updated_at >= bounds.changed_before
    )
    if caller_id != bounds.zone_uuid:
        is_kept = sa.or_(is_kept, _instance.reason == DELETED_BY_ADMIN)
    # The first one is enough: of a large boot one may run for long after all others were deleted.
    if tx.execute(sa.select(_instance.uuid).where(*of_boot, is_kept).limit(1)).first() is not None:
        return False
    state = sa.select(_reservation.state).where(
        _reservation.id == reservation_id, _reservation.caller_id == caller_id
    )
    if tx.execute(state).scalar() == ReservationState.OPEN.value:
        return False
    uuids = tx.execute(sa.select(_instance.uuid).where(*of_boot)).scalars().all()
    return not any(_is_kept(tx, some, bounds) for some in claims.chunks(uuids))


def _is_kept(tx: Connection, uuids: Sequence[str], bounds: PruneBounds) -> bool:
    places = sa.select(_place.uuid).where(
        _place.uuid.in_(uuids), sa.or_(~is_in(_place.state, FINAL), _place.retained_until >= bounds.now)
    )
    builds = sa.select(_build.uuid).where(_build.uuid.in_(uuids), _build.retained_until >= bounds.now)
    return any(tx.execute(rows.limit(1)).first() is not None for rows in (places, builds))
