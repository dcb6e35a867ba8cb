"""Instances as their owners see them: list, show, delete; a call for one in a child zone is passed on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched.errors import BadRequest, ChildUnreachable, Conflict, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.desired_state import NEW
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import image_of
from zonesched.model.placement import (
    CLAIMING,
    PROMISED,
    TO_BUILD,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.server_query import ServerQuery
from zonesched.model.task_state import task_state
from zonesched.model.views import FailedAttempt, ServerView
from zonesched.model.work_deadline import always
from zonesched.services.children.changes import apply_changes, wake_for
from zonesched.services.life.given_back import write_with_given_back
from zonesched.services.owners.actions import check_not_locked, record_delete
from zonesched.services.owners.scopes import scope_of
from zonesched.services.placing import idle_holds
from zonesched.services.placing.idle_holds import IdleHold
from zonesched.services.placing.placement_moves import end_unwanted
from zonesched.services.select import faults
from zonesched.services.zone import Zone
from zonesched.store import (
    aliases,
    feed,
    host_states,
    identity,
    inbound,
    instance_actions,
    instance_states,
    instances,
    locks,
    placements,
    reservations,
    server_list,
    services,
)
from zonesched.store.ended import DELETED_BY_ADMIN
from zonesched.store.host_states import HostAdminState
from zonesched.store.instance_actions import Lock
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, ClaimedHost, Placement
from zonesched.store.reservations import Reservation
from zonesched.store.server_list import Page
from zonesched.store.services import Service
from zonesched.store.store import Transaction
from zonesched.store.unknown_marker import UnknownMarker
from zonesched.zones.zone_manager import ZoneManager

State = PlacementState
IsAsked = Callable[[ServerView], bool]
SHOW_TIMEOUT_S = 5.0
SEARCHED_AT_ONCE = 500
MOST_SEARCHED = 10_000
"""Instances that one call looks at for filters that the database does not know."""


@dataclass(frozen=True)
class _Found:
    """An instance with the rows from which its view is made. `own_uuid`: its uuid for the caller."""

    own_uuid: str
    instance: Instance
    reservation: Reservation
    places: Sequence[Placement]
    local_hosts: Mapping[str, HostAdminState]
    agents: Mapping[str, Service]
    """Services of the hosts by id, for this zone's admin alone."""
    sent: InstanceChange | None
    """Status of its attempt, for a parent."""
    state: StoredState | None
    lock: Lock | None

    @property
    def place(self) -> Placement | None:
        """The present placement, if any."""
        return next((p for p in self.places if p.number == self.instance.attempt), None)

    @property
    def request_id(self) -> str:
        """The id of the request that has created it."""
        spec = self.reservation.spec
        return spec.traced_by or spec.request_id

    @property
    def launched_at(self) -> float:
        if self.state is not None:
            return self.state.built_at
        return self.instance.updated_at if self.instance.status is InstanceStatus.ACTIVE else 0.0


def list_servers(
    zone: Zone, caller: Caller, query: ServerQuery, is_asked: IsAsked | None = None
) -> tuple[list[ServerView], str]:
    """Read a page of instances, by default newest first, and the marker of the next page ("" at the end).

    With `is_asked`, only those for which it is true, among the next `MOST_SEARCHED` instances: the page may
    be shorter than others although there is a next one. Raises BadRequest for an unknown marker.
    """
    try:
        if is_asked is None or not query.limit:
            return _page(zone, caller, query)
        return zone.store.read(partial(_search, zone, caller, query, is_asked))
    except UnknownMarker as error:
        raise BadRequest("marker names no instance.", code="marker_unknown", field="marker") from error


def _search(
    zone: Zone, caller: Caller, query: ServerQuery, is_asked: IsAsked, tx: Transaction
) -> tuple[list[ServerView], str]:
    uuids = server_list.uuids(tx, _wanted(zone, caller, query, MOST_SEARCHED + 1))
    searched = uuids[:MOST_SEARCHED]
    asked: list[ServerView] = []
    for start in range(0, len(searched), SEARCHED_AT_ONCE):
        rows = instances.read_by_uuid(tx, some := searched[start : start + SEARCHED_AT_ONCE])
        found = _load(tx, caller, [rows[uuid] for uuid in some])
        asked += filter(is_asked, (_view(zone, caller, f, stale=False) for f in found))
        if len(asked) > query.limit:
            return asked[: query.limit], asked[query.limit - 1].uuid
    return asked, searched[-1] if len(uuids) > len(searched) else ""


def _page(zone: Zone, caller: Caller, query: ServerQuery) -> tuple[list[ServerView], str]:
    wanted = _wanted(zone, caller, query, query.limit + 1)
    found = zone.store.read(lambda tx: _load(tx, caller, server_list.page(tx, wanted)))
    page = found[: query.limit]
    views = [_view(zone, caller, f, stale=False) for f in page]
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
    )


def show(zone: Zone, caller: Caller, uuid: str, is_wanted: Callable[[], bool] = always) -> ServerView:
    """Show one instance, refreshed from its child; marked stale when that child cannot be reached."""
    found = _find(zone, caller, uuid)
    stale = False
    place = found.place
    if (
        zone.conf.enable_zone_routing
        and place is not None
        and isinstance(place.where, AskedChild)
        and place.state in TO_BUILD
    ):
        stale = not _refresh(zone, place, place.where.child_id, is_wanted)
        found = _find(zone, caller, uuid)
    return _view(zone, caller, found, stale=stale)


def _refresh(zone: Zone, place: Placement, child_id: str, is_wanted: Callable[[], bool]) -> bool:
    """Refresh one instance from its child; False when the child gives no usable answer."""
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
    wake_for(zone.wake, changes)
    return True


def delete(zone: Zone, caller: Caller, uuid: str, attempt: int = 0) -> None:
    """Delete an instance; its resources are released once, here or in a child zone.

    `attempt`: of a parent, which deletes it at that attempt only; a call that comes late leaves a later one.

    Its owner no longer sees it at once. A child that has it is called in the background until it answers.
    Raises NotFound, and Conflict for an instance of a child where `enable_zone_routing` is off.
    """
    found = _find(zone, caller, uuid)
    uuid = found.instance.uuid
    place = found.place
    if place is not None and isinstance(place.where, AskedChild) and not zone.conf.enable_zone_routing:
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


def _find(zone: Zone, caller: Caller, uuid: str) -> _Found:
    scope = scope_of(zone.uuid, caller, all_tenants=True)

    def fn(tx: Transaction) -> list[_Found]:
        return _load(tx, caller, server_list.find(tx, scope, uuid))

    found = zone.store.read(fn)
    if not found or not _is_shown(found[0]):
        raise NotFound("There is no such instance.", code="instance_not_found")
    return found[0]


def _is_shown(found: _Found) -> bool:
    """Return whether to show an instance: not once deleted, except to a parent whose attempt failed."""
    is_deleted = found.instance.status is InstanceStatus.DELETED
    return not is_deleted or (found.sent is not None and found.sent.state is BuildState.FAILED)


def _load(tx: Transaction, caller: Caller, rows: Sequence[Instance]) -> list[_Found]:
    uuids = [row.uuid for row in rows]
    is_parent = caller.role is Role.PARENT
    sent = feed.current(tx, caller.user_id, uuids) if is_parent else {}
    own = aliases.callers_uuids(tx, caller.user_id, uuids) if is_parent else {}
    places: dict[str, list[Placement]] = {}
    for p in placements.read_by_uuid(tx, uuids):
        places.setdefault(p.uuid, []).append(p)
    boots = reservations.read_ids(tx, sorted({row.reservation_id for row in rows}))
    host_ids = {
        p.where.host_id for found in places.values() for p in found if isinstance(p.where, ClaimedHost)
    }
    local_hosts = host_states.read_ids(tx, sorted(host_ids))
    agents = _agents(tx, local_hosts.values()) if caller.role is Role.ADMIN else {}
    states, held = instance_states.read(tx, uuids), instance_actions.locks(tx, uuids)
    return [
        _Found(
            own.get(row.uuid, row.uuid),
            row,
            boots[row.caller_id, row.reservation_id],
            places.get(row.uuid, []),
            local_hosts,
            agents,
            _sent_as(sent[row.uuid], own.get(row.uuid, row.uuid)) if row.uuid in sent else None,
            states.get(row.uuid),
            held.get(row.uuid),
        )
        for row in rows
    ]


def _sent_as(change: InstanceChange, own_uuid: str) -> InstanceChange:
    return faults.change_for_parent(replace(change, uuid=own_uuid))


def _view(zone: Zone, caller: Caller, found: _Found, *, stale: bool) -> ServerView:
    instance, spec = found.instance, found.reservation.spec
    state = found.state.state if found.state is not None else NEW
    host_id = _local_host_id(found)
    host = found.local_hosts.get(host_id)
    is_error = instance.status is InstanceStatus.ERROR
    is_admin = caller.role is Role.ADMIN
    return ServerView(
        uuid=found.own_uuid,
        name=instance.name,
        status=instance.status,
        task_state=_task_state(found),
        project_id=instance.project_id,
        user_id=instance.user_id,
        reservation_id=instance.reservation_id,
        created_at=instance.created_at,
        updated_at=instance.updated_at,
        flavor=flavor_of(state.present_flavor, spec.flavor),
        image=image_of(state.image, spec.image),
        passthrough=instance.passthrough,
        availability_zone=host.availability_zone if host else spec.availability_zone,
        host_id_for_tenant=host_id and zone.tenant_host_id(instance.project_id, host_id),
        host_name=host.name if host and is_admin else "",
        instance_name=f"{instance.uuid}.{instance.attempt}" if host and is_admin else "",
        fault_code=instance.reason if is_error else "",
        fault_message=faults.message(instance.reason, found.reservation.why) if is_error else "",
        stale=stale,
        sent=found.sent,
        child_name=_child_name(zone.children, found) if is_admin else "",
        failed_attempts=_failed_attempts(zone.children, caller, found) if is_error else (),
        state=state,
        launched_at=found.launched_at,
        locked_reason=found.lock.reason if found.lock is not None else None,
        pinned_availability_zone=spec.availability_zone,
        group_id=instance.group_id,
        launch_index=instance.position,
        ended_at=instance.ended_at,
        to_admin=is_admin,
        host_status=_host_status(zone, found.agents[host.service_id], host) if host and is_admin else "",
        fault_details=faults.details(instance.reason, found.reservation.why) if is_error and is_admin else "",
    )


def _agents(tx: Transaction, hosts: Iterable[HostAdminState]) -> Mapping[str, Service]:
    return services.read_ids(tx, sorted({host.service_id for host in hosts}))


def _host_status(zone: Zone, agent: Service, host: HostAdminState) -> str:
    """Return OpenStack's word for the state of an instance's host."""
    if host.forced_down or agent.forced_down:
        return "DOWN"
    if not host.enabled:
        return "MAINTENANCE"
    return "UP" if agent.is_up(zone.clock.now(), zone.conf.service_down_time) else "UNKNOWN"


def _failed_attempts(manager: ZoneManager, caller: Caller, found: _Found) -> Sequence[FailedAttempt]:
    failed = [p for p in found.places if p.state is State.FAILED]
    if caller.role is not Role.ADMIN:
        return [FailedAttempt(p.number, p.reason) for p in failed]
    children = {known.child.id: known.child.name for known in manager.snapshot()}
    lines: list[FailedAttempt] = []
    for p in failed:
        match p.where:
            case ClaimedHost(host_id):
                host = found.local_hosts[host_id].name if host_id in found.local_hosts else host_id
                lines.append(FailedAttempt(p.number, p.reason, host=host))
            case AskedChild(child_id):
                lines.append(FailedAttempt(p.number, p.reason, child=children.get(child_id, child_id)))
    return lines


def _child_name(manager: ZoneManager, found: _Found) -> str:
    """Return the name of the child zone that has an instance, its id once removed; "" for none."""
    place = found.place
    if place is None or not isinstance(place.where, AskedChild) or place.state not in PROMISED:
        return ""
    child_id = place.where.child_id
    names = (known.child.name for known in manager.snapshot() if known.child.id == child_id)
    return next(names, child_id)


def _local_host_id(found: _Found) -> str:
    place = found.place
    if place is None or not isinstance(place.where, ClaimedHost) or place.state not in CLAIMING:
        return ""
    return place.where.host_id


def _task_state(found: _Found) -> str:
    status = found.instance.status
    if found.state is not None:
        return task_state(status, found.state.state)
    if status is not InstanceStatus.BUILD:
        return ""
    place = found.place
    return "spawning" if place is not None and place.state is State.CONFIRMED else "scheduling"
