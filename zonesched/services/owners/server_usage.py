"""Usage of projects: how long their instances existed in a period, from the instances' own rows.

A deleted instance counts until it was deleted, and is forgotten once its rows are pruned; one in ERROR counts
until it failed.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.errors import BadRequest
from zonesched.model.desired_state import NEW, InstanceState
from zonesched.model.placement import InstanceStatus
from zonesched.model.present_request import as_now
from zonesched.model.request_spec import Flavor
from zonesched.services.zone import Zone
from zonesched.store import instance_states, reservations, server_usage
from zonesched.store.instances import Instance
from zonesched.store.server_usage import UsagePage
from zonesched.store.store import Transaction
from zonesched.store.unknown_marker import UnknownMarker

HOUR_S = 3600


@dataclass(frozen=True)
class UsageQuery:
    """A period in epoch seconds, and the page: `project_id` "" for all projects."""

    project_id: str
    start: float
    end: float
    marker: str
    limit: int


@dataclass(frozen=True)
class InstanceUsage:
    """One instance and its hours in the period; `ended_at`: epoch seconds, 0 while it exists."""

    uuid: str
    name: str
    project_id: str
    status: InstanceStatus
    state: InstanceState
    flavor: Flavor
    created_at: float
    ended_at: float
    hours: float
    uptime_s: float


def read(zone: Zone, query: UsageQuery) -> tuple[list[InstanceUsage], str]:
    """Read a page of usages by project, oldest first, and the marker of the next page ("" at the end).

    Raises BadRequest for a period that ends before it starts, and for a marker that names no instance.
    """
    if query.end <= query.start:
        raise BadRequest("end: must be later than start.", field="end")
    now, page = zone.clock.now(), _page(zone, query)

    def fn(tx: Transaction) -> list[InstanceUsage]:
        rows = server_usage.page(tx, page)
        specs = reservations.specs(tx, sorted({row.reservation_id for row in rows}))
        states = instance_states.read(tx, [row.uuid for row in rows])
        usages: list[InstanceUsage] = []
        for row in rows:
            state = states[row.uuid].state if row.uuid in states else NEW
            flavor = as_now(specs[row.caller_id, row.reservation_id], state).flavor
            usages.append(_usage(row, state, flavor, query, now))
        return usages

    try:
        found = zone.store.read(fn)
    except UnknownMarker as error:
        raise BadRequest("marker names no instance.", code="marker_unknown", field="marker") from error
    return found[: query.limit], found[query.limit - 1].uuid if 0 < query.limit < len(found) else ""


def has_more_than(zone: Zone, query: UsageQuery, number: int) -> bool:
    """Tell whether the usage of more than so many instances is asked for, on all pages."""
    return zone.store.read(lambda tx: server_usage.has_more_than(tx, _page(zone, query), number))


def _page(zone: Zone, query: UsageQuery) -> UsagePage:
    return UsagePage(zone.uuid, query.project_id, query.start, query.end, query.marker, query.limit + 1)


def _usage(
    row: Instance, state: InstanceState, flavor: Flavor, query: UsageQuery, now: float
) -> InstanceUsage:
    has_ended = row.status in (InstanceStatus.DELETED, InstanceStatus.ERROR)
    ended_at = row.ended_at if has_ended else 0.0
    until = min(query.end, ended_at or now)
    return InstanceUsage(
        uuid=row.uuid,
        name=row.name,
        project_id=row.project_id,
        status=row.status,
        state=state,
        flavor=flavor,
        created_at=row.created_at,
        ended_at=ended_at,
        hours=max(0.0, until - max(query.start, row.created_at)) / HOUR_S,
        uptime_s=max(0.0, (ended_at or now) - row.created_at),
    )
