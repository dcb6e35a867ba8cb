"""Instances that ran in a period, for reports of their usage."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Read a page of instances that existed in the period.

    Raises UnknownMarker for a marker that names none of the project.
    """
    own = [_instance.caller_id == wanted.zone_uuid]
    if wanted.project_id:
        own.append(_instance.project_id == wanted.project_id)
    conditions = [
        *own,
        _instance.created_at < wanted.end,
        sa.or_(_instance.status.not_in(ENDED), _instance.ended_at > wanted.start),
    ]
    if wanted.marker:
        conditions.append(_after(tx, own, wanted.marker))
    order = (_instance.project_id, _instance.uuid)
    statement = sa.select(t.instances).where(*conditions).order_by(*order).limit(wanted.limit)
    return [instances.from_row(row) for row in tx.execute(statement)]


def _after(tx: Connection, own: Sequence[sa.ColumnElement[bool]], marker: str) -> sa.ColumnElement[bool]:
    statement = sa.select(_instance.project_id).where(_instance.uuid == marker, *own)
    project = tx.execute(statement).scalar()
    if project is None:
        raise UnknownMarker(marker)
    in_project = sa.and_(_instance.project_id == project, _instance.uuid > marker)
    return sa.or_(_instance.project_id > project, in_project)
