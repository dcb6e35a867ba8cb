"""Instances that ran in a period, for reports of their usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.store import instances
from zonesched.store import tables as t
from zonesched.store.instances import Instance
from zonesched.store.unknown_marker import UnknownMarker

_instance = t.instances.c
_BY_AGE = (_instance.created_at, _instance.uuid)
_BY_PROJECT = (_instance.project_id, *_BY_AGE)
"""Order of `ix_instances_listing` behind the caller: a page is read from there, and nothing is sorted."""

ENDED = (InstanceStatus.DELETED.value, InstanceStatus.ERROR.value)


@dataclass(frozen=True)
class UsagePage:
    """Query of a page by project and age, oldest first: after the instance `marker`, "" for the first page.

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
    own = _own(wanted)
    order: Sequence[sa.ColumnElement[Any]] = _BY_AGE if wanted.project_id else _BY_PROJECT
    conditions = [*own, *_in_period(wanted)]
    if wanted.marker:
        conditions.append(_after(tx, own, order, wanted.marker))
    statement = sa.select(t.instances).where(*conditions).order_by(*order).limit(wanted.limit)
    return [instances.from_row(row) for row in tx.execute(statement)]


def has_more_than(tx: Connection, wanted: UsagePage, number: int) -> bool:
    """Tell whether more than so many instances existed in the period, whatever the page."""
    statement = sa.select(_instance.uuid).where(*_own(wanted), *_in_period(wanted)).limit(1).offset(number)
    return tx.execute(statement).first() is not None


def _own(wanted: UsagePage) -> list[sa.ColumnElement[bool]]:
    of_zone = _instance.caller_id == wanted.zone_uuid
    return [of_zone, _instance.project_id == wanted.project_id] if wanted.project_id else [of_zone]


def _in_period(wanted: UsagePage) -> list[sa.ColumnElement[bool]]:
    return [
        _instance.created_at < wanted.end,
        sa.or_(_instance.status.not_in(ENDED), _instance.ended_at > wanted.start),
    ]


def _after(
    tx: Connection,
    own: Sequence[sa.ColumnElement[bool]],
    order: Sequence[sa.ColumnElement[Any]],
    marker: str,
) -> sa.ColumnElement[bool]:
    found = tx.execute(sa.select(*order).where(_instance.uuid == marker, *own)).first()
    if found is None:
        raise UnknownMarker(marker)
    # A comparison of rows: the index begins to read right behind the marker.
    return sa.tuple_(*order) > sa.tuple_(*found)
