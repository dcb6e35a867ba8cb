"""Instances that ran in a period, for reports of their usage."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.store import instances
from zonesched.store import tables as t
from zonesched.store.instances import Instance
from zonesched.store.unknown_marker import UnknownMarker

_instance = t.instances.c
ENDED = (InstanceStatus.DELETED.value, InstanceStatus.ERROR.value)


@dataclass(frozen=True)
class UsagePage:
    """Query of a page by project and uuid: after the instance `marker`, "" for the first page.

    Those of one project of this zone's users, or of all with a `project_id` of "", that existed between
    `start` and `end`, epoch seconds.
    """

    zone_uuid: str
    project_id: str
    start: float
    end: float
    marker: str
    limit: int


def page(tx: Connection, wanted: UsagePage) -> list[Instance]:
    """Read a page of instances that existed in the period. Raises UnknownMarker for an unknown marker."""
    conditions = [
        _instance.caller_id == wanted.zone_uuid,
        _instance.created_at < wanted.end,
        sa.or_(_instance.status.not_in(ENDED), _instance.updated_at > wanted.start),
    ]
    if wanted.project_id:
        conditions.append(_instance.project_id == wanted.project_id)
    if wanted.marker:
        conditions.append(_after(tx, wanted))
    order = (_instance.project_id, _instance.uuid)
    statement = sa.select(t.instances).where(*conditions).order_by(*order).limit(wanted.limit)
    return [instances.from_row(row) for row in tx.execute(statement)]


def _after(tx: Connection, wanted: UsagePage) -> sa.ColumnElement[bool]:
    own = (_instance.uuid == wanted.marker, _instance.caller_id == wanted.zone_uuid)
    project = tx.execute(sa.select(_instance.project_id).where(*own)).scalar()
    if project is None:
        raise UnknownMarker(wanted.marker)
    in_project = sa.and_(_instance.project_id == project, _instance.uuid > wanted.marker)
    return sa.or_(_instance.project_id > project, in_project)
