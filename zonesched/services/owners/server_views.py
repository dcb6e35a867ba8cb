"""Instances as their owners see them: the rows of each, and its view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from zonesched.model.caller import Caller, Role
from zonesched.model.decision_trace import NO_TRACE, DecisionTrace
from zonesched.model.desired_state import NEW
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import image_of
from zonesched.model.observed_state import Power
from zonesched.model.placement import (
    CLAIMING,
    PROMISED,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.request_spec import RequestSpec
from zonesched.model.task_state import task_state
from zonesched.model.views import FailedAttempt, ServerView
from zonesched.services.select import faults
from zonesched.services.zone import Zone
from zonesched.store import (
    aliases,
    feed,
    host_states,
    instance_actions,
    instance_states,
    placements,
    reservations,
    services,
)
from zonesched.store.host_states import HostAdminState
from zonesched.store.instance_actions import Lock
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, ClaimedHost, Placement
from zonesched.store.services import Service
from zonesched.store.store import Transaction
from zonesched.zones.zone_manager import ZoneManager

State = PlacementState


@dataclass(frozen=True)
class Found:
    """An instance with the rows from which its view is made. `own_uuid`: its uuid for the caller."""

    own_uuid: str
    instance: Instance
    spec: RequestSpec
    why: DecisionTrace
    """Decision trace of its boot, for one in ERROR alone."""
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
        return self.spec.traced_by or self.spec.request_id

    @property
    def launched_at(self) -> float:
        """When it was built (epoch seconds), 0 before."""
        if self.state is not None:
            return self.state.built_at
        return self.instance.updated_at if self.instance.status is InstanceStatus.ACTIVE else 0.0


def load(tx: Transaction, caller: Caller, rows: Sequence[Instance]) -> list[Found]:
    """Read what the views of these instances are made from, in their order."""
    uuids = [row.uuid for row in rows]
    is_parent = caller.role is Role.PARENT
    sent = feed.current(tx, caller.user_id, uuids) if is_parent else {}
    own = aliases.callers_uuids(tx, caller.user_id, uuids) if is_parent else {}
    places: dict[str, list[Placement]] = {}
    for p in placements.read_by_uuid(tx, uuids):
        places.setdefault(p.uuid, []).append(p)
    specs = reservations.specs(tx, sorted({row.reservation_id for row in rows}))
    failed = {row.reservation_id for row in rows if row.status is InstanceStatus.ERROR}
    traces = reservations.traces(tx, sorted(failed))
    host_ids = {
        p.where.host_id for found in places.values() for p in found if isinstance(p.where, ClaimedHost)
    }
    local_hosts = host_states.read_ids(tx, sorted(host_ids))
    agents = _agents(tx, local_hosts.values()) if caller.role is Role.ADMIN else {}
    states, held = instance_states.read(tx, uuids), instance_actions.locks(tx, uuids)
    return [
        Found(
            own.get(row.uuid, row.uuid),
            row,
            specs[row.caller_id, row.reservation_id],
            traces.get((row.caller_id, row.reservation_id), NO_TRACE),
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


def view(zone: Zone, caller: Caller, found: Found, *, stale: bool) -> ServerView:
    """Make the view that the caller may see; `stale`: its child could not be asked."""
    instance, spec = found.instance, found.spec
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
        fault_message=_fault_message(found) if is_error else "",
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
        fault_details=faults.details(instance.reason, found.why) if is_error and is_admin else "",
    )


def _fault_message(found: Found) -> str:
    # The place of an instance that was never built has failed, and was not released.
    was_built = found.place is not None and found.place.state in (State.RELEASING, State.RELEASED)
    return faults.message(found.instance.reason, found.why, was_built=was_built)


def _agents(tx: Transaction, hosts: Iterable[HostAdminState]) -> Mapping[str, Service]:
    return services.read_ids(tx, sorted({host.service_id for host in hosts}))


def _host_status(zone: Zone, agent: Service, host: HostAdminState) -> str:
    """Return OpenStack's word for the state of an instance's host."""
    if host.forced_down or agent.forced_down:
        return "DOWN"
    if not host.enabled:
        return "MAINTENANCE"
    return "UP" if zone.listening.hears(agent) else "UNKNOWN"


def _failed_attempts(manager: ZoneManager, caller: Caller, found: Found) -> Sequence[FailedAttempt]:
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


def _child_name(manager: ZoneManager, found: Found) -> str:
    """Return the name of the child zone that has an instance, its id once removed; "" for none."""
    place = found.place
    if place is None or not isinstance(place.where, AskedChild) or place.state not in PROMISED:
        return ""
    child_id = place.where.child_id
    names = (known.child.name for known in manager.snapshot() if known.child.id == child_id)
    return next(names, child_id)


def _local_host_id(found: Found) -> str:
    place = found.place
    if place is None or not isinstance(place.where, ClaimedHost) or place.state not in CLAIMING:
        return ""
    state = found.state.state if found.state is not None else NEW
    # An evacuated one has left, while the claim still waits for the agent of its host.
    has_left = place.state is State.RELEASING and state.observed.power is Power.OFFLOADED
    return "" if has_left else place.where.host_id


def _task_state(found: Found) -> str:
    status = found.instance.status
    if found.state is not None:
        return task_state(status, found.state.state)
    if status is not InstanceStatus.BUILD:
        return ""
    place = found.place
    return "spawning" if place is not None and place.state is State.CONFIRMED else "scheduling"
