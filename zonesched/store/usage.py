"""Counts of instances and boots, for quotas."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import LIVING_STATUSES
from zonesched.store import tables as t
from zonesched.store.prepared import is_in
from zonesched.store.reservations import ReservationState

_instance, _reservation = t.instances.c, t.reservations.c


def instances(tx: Connection, caller_id: str, project_id: str | None = None) -> int:
    """Count the instances of a parent, or of a project of this zone, that run or may still be built.

    Those in ERROR take nothing: a boot that fails as a whole leaves its caller what it had before.
    """
    statement = sa.select(sa.func.count()).where(
        _instance.caller_id == caller_id, is_in(_instance.status, LIVING_STATUSES)
    )
    if project_id is not None:
        statement = statement.where(_instance.project_id == project_id)
    return int(tx.execute(statement).scalar_one())


def open_boots(tx: Connection, zone_uuid: str, project_id: str | None = None) -> int:
    """Count the open boots of this zone's own users, of one project or of all."""
    statement = sa.select(sa.func.count()).where(
        _reservation.state == ReservationState.OPEN.value, _reservation.caller_id == zone_uuid
    )
    if project_id is not None:
        statement = statement.where(_reservation.project_id == project_id)
    return int(tx.execute(statement).scalar_one())
