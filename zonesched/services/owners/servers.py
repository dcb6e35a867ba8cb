"""Instances as their owners see them: list, show, delete; a call for one in a child zone is passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zonesched.errors import BadRequest, ChildUnreachable, Conflict, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.placement import (
    CLAIMING,
    PROMISED,
    TO_BUILD,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.views import FailedAttempt, ServerQuery, ServerView
from zonesched.services.children.sync import apply_changes, wake_for
from zonesched.services.placing.placement_moves import end_unwanted
from zonesched.services.select import faults
from zonesched.services.zone import Zone
from zonesched.store import (
    feed,
    host_states,
    identity,
    instances,
    locks,
    placements,
    reservations,
    server_list,
)
from zonesched.store.ended import DELETED_BY_ADMIN
from zonesched.store.host_states import HostAdminState
from zonesched.store.instances import Instance
from zonesched.store.placements import InChild, OnHost, Placement
from zonesched.store.reservations import Reservation
from zonesched.store.server_list import Everybody, OfCaller, OfProject, Page, Scope
from zonesched.store.store import Transaction

State = PlacementState
SHOW_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class _Found:
    """An instance with the rows from which its view is made."""

    instance: Instance
    reservation: Reservation
    places: Sequence[Placement]
    local_hosts: Mapping[str, HostAdminState]
    sent: InstanceChange | None
    """Status of its attempt, for a parent."""

    @property
    def place(self) -> Placement | None:
        """The present placement, if any."""
        return next((p for p in self.places if p.number == self.instance.attempt), None)


def scope_of(zone: Zone, caller: Caller, *, all_tenants: bool) -> Scope:
    """Return whose instances a caller may see: a parent its own, an admin all, others their project's."""
    if caller.role is Role.PARENT:
        return OfCaller(caller.user_id)
    if caller.role is Role.ADMIN and all_tenants:
        return Everybody()
    return OfProject(zone.uuid, caller.project_id)


def list_servers(zone: Zone, caller: Caller, query: ServerQuery) -> tuple[list[ServerView], str]:
    """Read a page of instances, newest first, and the marker of the next page ("" at the end).

    Raises BadRequest for a marker that names no instance.
    """
    wanted = Page(
        scope=scope_of(zone, caller, all_tenants=query.all_tenants),
        reservation_id=query.reservation_id,
        status=query.status,
        name=query.name,
        marker=query.marker,
        limit=query.limit + 1,
    )
    try:
        found = zone.store.read(lambda tx: _load(tx, caller, server_list.page(tx, wanted)))
    except LookupError as error:
        raise BadRequest("marker names no instance.", code="marker_unknown", field="marker") from error
    page = found[: query.limit]
    more = len(found) > query.limit
    views = [_view(zone, caller, f, stale=False) for f in page]
    return views, page[-1].instance.uuid if more and page else ""


def show(zone: Zone, caller: Caller, uuid: str) -> ServerView:
    """Show one instance, refreshed from its child; marked stale when that child cannot be reached."""
    found = _find(zone, caller, uuid)
    stale = False
    place = found.place
    if (
        zone.conf.enable_zone_routing
        and place is not None
        and isinstance(place.where, InChild)
        and place.state in TO_BUILD
    ):
        stale = not _refresh(zone, place, place.where.child_id)
        found = _find(zone, caller, uuid)
    return _view(zone, caller, found, stale=stale)


def _refresh(zone: Zone, place: Placement, child_id: str) -> bool:
    """Refresh one instance from its child; False when the child gives no usable answer."""
    try:
        found = zone.child_client(child_id).show_server(place.uuid, SHOW_TIMEOUT_S)
    except ChildUnreachable:
        return False
    gone = InstanceChange(place.uuid, place.number, InstanceStatus.DELETED, BuildState.CONFIRMED)
    changes = [found if found is not None else gone]
    zone.store.write(lambda tx: apply_changes(zone, tx, child_id, changes))
    wake_for(zone, changes)
    return True


def delete(zone: Zone, caller: Caller, uuid: str) -> None:
    """Delete an instance; its resources are released once, here or in a child zone.

    Its owner no longer sees it at once. A child that has it is called in the background until it answers.
    Raises NotFound, and Conflict for an instance of a child where `enable_zone_routing` is off.
    """
    found = _find(zone, caller, uuid)
    place = found.place
    if place is not None and isinstance(place.where, InChild) and not zone.conf.enable_zone_routing:
        raise Conflict("This zone passes no calls on to its child zones.", code="zone_routing_disabled")

    # A parent is notified of a deletion that it did not request.
    reason = "deleted" if found.instance.caller_id in (zone.uuid, caller.user_id) else DELETED_BY_ADMIN

    def fn(tx: Transaction) -> bool:
        locks.instances(tx, [uuid])
        rows = instances.read_by_uuid(tx, [uuid])
        if uuid not in rows or rows[uuid].status is InstanceStatus.DELETED:
            raise NotFound("There is no such instance.", code="instance_not_found")
        change, now = identity.next_change(tx), zone.clock.now()
        call_children = end_unwanted(tx, change, placements.read_by_uuid(tx, [uuid]), now, "deleted")
        instances.set_status(tx, change, [uuid], InstanceStatus.DELETED, now, reason=reason)
        return call_children

    if zone.store.write(fn):
        zone.wake.child_calls()
    zone.wake.agents(found.places)


def _find(zone: Zone, caller: Caller, uuid: str) -> _Found:
    scope = scope_of(zone, caller, all_tenants=True)

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
    places: dict[str, list[Placement]] = {}
    for p in placements.read_by_uuid(tx, uuids):
        places.setdefault(p.uuid, []).append(p)
    boots = reservations.read_ids(tx, sorted({row.reservation_id for row in rows}))
    host_ids = {p.where.host_id for found in places.values() for p in found if isinstance(p.where, OnHost)}
    local_hosts = host_states.read_ids(tx, sorted(host_ids))
    return [
        _Found(
            row,
            boots[row.caller_id, row.reservation_id],
            places.get(row.uuid, []),
            local_hosts,
            faults.change_for_parent(sent[row.uuid]) if row.uuid in sent else None,
        )
        for row in rows
    ]


def _view(zone: Zone, caller: Caller, found: _Found, *, stale: bool) -> ServerView:
    instance, spec = found.instance, found.reservation.spec
    host_id = _local_host_id(found)
    host = found.local_hosts.get(host_id)
    is_error = instance.status is InstanceStatus.ERROR
    return ServerView(
        uuid=instance.uuid,
        name=instance.name,
        status=instance.status,
        task_state=_task_state(found),
        project_id=instance.project_id,
        user_id=instance.user_id,
        reservation_id=instance.reservation_id,
        created_at=instance.created_at,
        updated_at=instance.updated_at,
        flavor=spec.flavor,
        image=spec.image,
        passthrough=instance.passthrough,
        availability_zone=host.availability_zone if host else spec.availability_zone,
        host_id_for_tenant=host_id and zone.tenant_host_id(instance.project_id, host_id),
        host_name=host.name if host and caller.role is Role.ADMIN else "",
        fault_code=instance.reason if is_error else "",
        fault_message=faults.message(instance.reason, found.reservation.why) if is_error else "",
        stale=stale,
        sent=found.sent,
        child_name=_child_name(zone, found) if caller.role is Role.ADMIN else "",
        failed_attempts=_failed_attempts(zone, caller, found) if is_error else (),
    )


def _failed_attempts(zone: Zone, caller: Caller, found: _Found) -> Sequence[FailedAttempt]:
    failed = [p for p in found.places if p.state is State.FAILED]
    if caller.role is not Role.ADMIN:
        return [FailedAttempt(p.number, p.reason) for p in failed]
    children = {known.child.id: known.child.name for known in zone.children.snapshot()}
    lines: list[FailedAttempt] = []
    for p in failed:
        match p.where:
            case OnHost(host_id):
                host = found.local_hosts[host_id].name if host_id in found.local_hosts else host_id
                lines.append(FailedAttempt(p.number, p.reason, host=host))
            case InChild(child_id):
                lines.append(FailedAttempt(p.number, p.reason, child=children.get(child_id, child_id)))
    return lines


def _child_name(zone: Zone, found: _Found) -> str:
    """Return the name of the child zone that has an instance, its id once removed; "" for none."""
    place = found.place
    if place is None or not isinstance(place.where, InChild) or place.state not in PROMISED:
        return ""
    child_id = place.where.child_id
    names = (known.child.name for known in zone.children.snapshot() if known.child.id == child_id)
    return next(names, child_id)


def _local_host_id(found: _Found) -> str:
    place = found.place
    if place is None or not isinstance(place.where, OnHost) or place.state not in CLAIMING:
        return ""
    return place.where.host_id


def _task_state(found: _Found) -> str:
    if found.instance.status is not InstanceStatus.BUILD:
        return ""
    place = found.place
    return "spawning" if place is not None and place.state is State.CONFIRMED else "scheduling"
