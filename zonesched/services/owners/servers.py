"""Instances as their owners see them: list, show, delete; a call for one in a child zone is passed on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from zonesched.errors import BadRequest, ChildUnreachable, Conflict, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.placement import (
    TO_BUILD,
    WANTED,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.server_query import ANY_STATES, AskedStates, ServerQuery
from zonesched.model.views import ServerView
from zonesched.model.work_deadline import always
from zonesched.services.children.changes import apply_changes, wake_for
from zonesched.services.life.given_back import write_with_given_back
from zonesched.services.owners import server_views
from zonesched.services.owners.actions import check_not_locked, record_delete
from zonesched.services.owners.scopes import scope_of
from zonesched.services.owners.server_views import Found
from zonesched.services.placing import idle_holds
from zonesched.services.placing.idle_holds import IdleHold
from zonesched.services.placing.placement_moves import end_unwanted
from zonesched.services.zone import Zone
from zonesched.store import (
    identity,
    inbound,
    instances,
    locks,
    placements,
    server_list,
)
from zonesched.store.ended import DELETED_BY_ADMIN
from zonesched.store.instances import Instance
from zonesched.store.outages import outage
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.server_list import Page
from zonesched.store.store import Transaction
from zonesched.store.unknown_marker import UnknownMarker

State = PlacementState
SHOW_TIMEOUT_S = 5.0
SEARCHED_AT_ONCE = 500
MOST_SEARCHED = 10_000
"""Instances that one call looks at for filters that the database does not know."""


@dataclass(frozen=True)
class Search:
    """Filters that the database does not know, or not exactly.

    `by_details`: by the name and the passthrough, before anything else of an instance is read. `by_view`: by
    all that its owner sees, among them the `states`, by which the database leaves most others out.
    """

    by_details: Callable[[str, Mapping[str, Any]], bool]
    by_view: Callable[[ServerView], bool]
    states: AskedStates = ANY_STATES


def list_servers(
    zone: Zone, caller: Caller, query: ServerQuery, search: Search | None = None
) -> tuple[list[ServerView], str]:
    """Read a page of instances, by default newest first, and the marker of the next page ("" at the end).

    With `search`, only those that it asks for, among the next `MOST_SEARCHED` instances: the page may
    be shorter than others although there is a next one. Raises BadRequest for an unknown marker.
    """
    try:
        if search is None or not query.limit:
            return _page(zone, caller, query)
        return zone.store.read(partial(_search, zone, caller, query, search))
    except UnknownMarker as error:
        raise BadRequest("marker names no instance.", code="marker_unknown", field="marker") from error


def _search(
    zone: Zone, caller: Caller, query: ServerQuery, search: Search, tx: Transaction
) -> tuple[list[ServerView], str]:
    wanted = replace(_wanted(zone, caller, query, MOST_SEARCHED + 1), states=search.states)
    uuids = server_list.uuids(tx, wanted)
    searched = uuids[:MOST_SEARCHED]
    asked: list[ServerView] = []
    for some in _growing_parts(searched, query.limit + 1):
        rows = instances.read_by_uuid(tx, some)
        likely = [row for row in map(rows.__getitem__, some) if search.by_details(row.name, row.passthrough)]
        found = server_views.load(tx, caller, likely)
        asked += filter(search.by_view, (server_views.view(zone, caller, f, stale=False) for f in found))
        if len(asked) > query.limit:
            return asked[: query.limit], asked[query.limit - 1].uuid
    return asked, searched[-1] if len(uuids) > len(searched) else ""


def _growing_parts(uuids: Sequence[str], first: int) -> Iterator[Sequence[str]]:
    """Split a search: the first instances may be all that are asked for, of rare ones none may be."""
    start, size = 0, min(first, SEARCHED_AT_ONCE)
    while start < len(uuids):
        yield uuids[start : start + size]
        start, size = start + size, min(2 * size, SEARCHED_AT_ONCE)


def _page(zone: Zone, caller: Caller, query: ServerQuery) -> tuple[list[ServerView], str]:
    wanted = _wanted(zone, caller, query, query.limit + 1)
    found = zone.store.read(lambda tx: server_views.load(tx, caller, server_list.page(tx, wanted)))
    page = found[: query.limit]
    views = [server_views.view(zone, caller, f, stale=False) for f in page]
    return views, page[-1].own_uuid if 0 < query.limit < len(found) else ""


def _wanted(zone: Zone, caller: Caller, query: ServerQuery, limit: int) -> Page:
    return Page(
        scope=scope_of(zone.uuid, caller, all_tenants=query.all_tenants),
        reservation_id=query.reservation_id,
        statuses=query.statuses,
        flavor_id=query.flavor_id,
        changed_since=query.changed_since,
        changed_before=query.changed_before,
        name=query.name,
        uuid=query.uuid,
        user_id=query.user_id,
        project_id=query.project_id,
        host=query.host,
        order=query.order,
        marker=query.marker,
        limit=limit,
        locked=query.locked,
    )


def show(zone: Zone, caller: Caller, uuid: str, is_wanted: Callable[[], bool] = always) -> ServerView:
    """Show one instance, refreshed from its child; marked stale when that cannot be done."""
    found = _find(zone, caller, uuid)
    stale = False
    place = found.place
    if (
        zone.conf.enable_zone_routing
        and place is not None
        and isinstance(place.where, AskedChild)
        and place.state in TO_BUILD
    ):
        # The rows of a restored zone are old: what a child says of them is for the recovery alone.
        stale = zone.restored.is_under_way or not _refresh(zone, place, place.where.child_id, is_wanted)
        found = _find(zone, caller, uuid)
    return server_views.view(zone, caller, found, stale=stale)


def _refresh(zone: Zone, place: Placement, child_id: str, is_wanted: Callable[[], bool]) -> bool:
    """Refresh one instance from its child; False when it gives no usable answer, or none can be kept."""
    gone = InstanceChange(place.uuid, place.number, InstanceStatus.DELETED, BuildState.CONFIRMED)
    try:
        client = zone.child_client(child_id).within(math.inf, is_wanted)
        found = client.show_server(place.uuid, SHOW_TIMEOUT_S)
        if found is None and place.state is State.CONFIRMING:
            # Its hold may be over: the answer to the confirm, which is repeated, says so.
            return True
        changes = [found if found is not None else gone]
        write_with_given_back(
            zone.store,
            partial(apply_changes, zone, child_id, changes),
            partial(client.request_of, timeout_s=SHOW_TIMEOUT_S),
        )
    except ChildUnreachable:
        return False
    except Exception as error:
        if outage(error) is None:
            raise
        # Its disk may be full, and rows be read.
        return False
    wake_for(zone.wake, changes)
    return True


def delete(
    zone: Zone,
    caller: Caller,
    uuid: str,
    attempt: int = 0,
    check: Callable[[Transaction], None] = lambda tx: None,
) -> None:
    """Delete an instance; its resources are released once, here or in a child zone.

    `attempt`: of a parent, which deletes it at that attempt only; a call that comes late leaves a later one.
    `check`: called with the instance locked, before anything is changed; raises what this raises then.

    Its owner no longer sees it at once. A child that has it is called in the background until it answers.
    Raises NotFound, and Conflict for an instance of a child where `enable_zone_routing` is off. A parent and
    the zone itself are not refused: nobody else ends what they have given up, and its claims would stay.
    """
    found = _find(zone, caller, uuid)
    uuid = found.instance.uuid
    place = found.place
    is_in_child = place is not None and isinstance(place.where, AskedChild) and place.state in WANTED
    is_passed_on = is_in_child and caller.role is not Role.PARENT and caller.user_id != zone.uuid
    if is_passed_on and not zone.conf.enable_zone_routing:
        raise Conflict("This zone passes no calls on to its child zones.", code="zone_routing_disabled")

    # A parent is notified of a deletion that it did not request.
    reason = "deleted" if found.instance.caller_id in (zone.uuid, caller.user_id) else DELETED_BY_ADMIN

    def fn(tx: Transaction) -> tuple[bool, list[IdleHold]]:
        locks.instances(tx, [uuid])
        rows = instances.read_by_uuid(tx, [uuid])
        if uuid not in rows or rows[uuid].status is InstanceStatus.DELETED:
            raise NotFound("There is no such instance.", code="instance_not_found")
        if attempt and not _is_at(tx, caller, rows[uuid], attempt):
            raise NotFound("There is no such instance.", code="instance_not_found")
        check_not_locked(tx, caller, uuid)
        check(tx)
        change, now = identity.next_change(tx), zone.clock.now()
        places = placements.read_by_uuid(tx, [uuid])
        idle = idle_holds.ending(tx, zone.uuid, places, now)
        call_children = end_unwanted(tx, change, places, now, "deleted")
        instances.set_status(tx, change, [uuid], InstanceStatus.DELETED, now, reason=reason)
        if caller.role is not Role.PARENT:
            record_delete(tx, caller, rows[uuid], found.request_id, now)
        return call_children, idle

    call_children, idle = zone.store.write(fn)
    idle_holds.charge(zone, idle)
    if call_children:
        zone.wake.child_calls()
    zone.wake.agents(found.places)


def _is_at(tx: Transaction, caller: Caller, instance: Instance, attempt: int) -> bool:
    """Tell whether an instance of a parent is at this attempt of its."""
    build = inbound.of_place(tx, caller.user_id, instance.uuid, instance.attempt)
    return build is not None and build.attempt == attempt


def _find(zone: Zone, caller: Caller, uuid: str) -> Found:
    scope = scope_of(zone.uuid, caller, all_tenants=True)

    def fn(tx: Transaction) -> list[Found]:
        return server_views.load(tx, caller, server_list.find(tx, scope, uuid))

    found = zone.store.read(fn)
    if not found or not _is_shown(found[0]):
        raise NotFound("There is no such instance.", code="instance_not_found")
    return found[0]


def _is_shown(found: Found) -> bool:
    """Return whether to show an instance: not once deleted, except to a parent whose attempt failed."""
    is_deleted = found.instance.status is InstanceStatus.DELETED
    return not is_deleted or (found.sent is not None and found.sent.state is BuildState.FAILED)
