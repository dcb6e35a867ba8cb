"""Actions of owners on their instances: judged, recorded and made a desired state in one transaction.

A locked instance refuses everyone but this zone's admins. An instance of a parent takes actions in the zone
where its owner is, which counts the generations of its desired state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched import tracing
from zonesched.errors import NotFound, ZoneschedError
from zonesched.model.action_table import Action, why_illegal
from zonesched.model.caller import Caller, Role
from zonesched.model.desired_state import NEW, Result
from zonesched.model.instance_action import (
    AskedAction,
    LockServer,
    MigrateServer,
    RebuildServer,
    RefusedAction,
    ResizeServer,
    UnlockServer,
)
from zonesched.model.placement import InstanceStatus
from zonesched.model.shown_status import is_soft_deleted
from zonesched.services.life import image_fit, resizing
from zonesched.services.life.observing import observe
from zonesched.services.life.shelving import place_again
from zonesched.services.life.wanting import Wanted, wake_for, want
from zonesched.services.moves import beginning
from zonesched.services.owners import rebuilds, resizes
from zonesched.services.owners.judging import Asked, Subject, judge, locked
from zonesched.services.owners.rebuilds import Rebuild
from zonesched.services.owners.reservations import existing
from zonesched.services.owners.resizes import Resize
from zonesched.services.owners.scopes import boot_scope, scope_of
from zonesched.services.state.wake import Wake
from zonesched.services.zone import Zone
from zonesched.store import (
    built_times,
    claims,
    identity,
    instance_actions,
    instance_states,
    instances,
    locks,
    placements,
    server_list,
    soft_deleted,
)
from zonesched.store.instance_actions import Count, InstanceAction, Lock
from zonesched.store.instances import Instance
from zonesched.store.placements import Placement
from zonesched.store.store import Transaction

PER_WRITE = 500


@dataclass(frozen=True)
class _Taken:
    """Outcome of an action on several instances: how many took it, the places to wake, and the refusals."""

    count: int
    places: Sequence[Placement]
    refused: Sequence[tuple[str, ZoneschedError]]


def act(zone: Zone, caller: Caller, uuid: str, asked: AskedAction) -> None:
    """Take an action on one instance.

    Raises NotFound, Forbidden, BadRequest for a rebuild's image, and Conflict with a stable code where it is
    illegal now.
    """
    scope = scope_of(zone.uuid, caller, all_tenants=True)
    zone.store.read(lambda tx: _living(tx, scope, uuid))
    prepared = _prepared(zone, caller, [uuid], asked)

    def fn(tx: Transaction) -> _Taken:
        locks.instances(tx, [uuid])
        taken = _take(zone, tx, caller, _living(tx, scope, uuid), prepared)
        for _, error in taken.refused:
            raise error
        return taken

    _wake(zone.wake, asked, zone.store.write(fn).places)


def act_on_boot(
    zone: Zone, caller: Caller, reservation_id: str, asked: AskedAction, sender_id: str = ""
) -> tuple[int, list[RefusedAction]]:
    """Take an action on all instances of a boot that are not deleted, RESTORE also on soft-deleted ones.

    Returns how many took it, and the refusals. Raises what `boot_scope` and `existing` raise, and BadRequest
    for a rebuild's image.
    """
    scope = boot_scope(zone.uuid, caller, sender_id)

    def members(tx: Transaction) -> list[str]:
        boot = existing(tx, reservation_id, scope)
        found = instances.members(tx, boot.caller_id, boot.id)
        return [member.uuid for member in found if member.status is not InstanceStatus.DELETED]

    accepted, places, refused = 0, list[Placement](), list[RefusedAction]()
    for some in claims.chunks(zone.store.read(members), PER_WRITE):
        prepared = _prepared(zone, caller, some, asked)
        taken = zone.store.write(partial(_take_living, zone, caller, some, prepared))
        accepted += taken.count
        refused += [RefusedAction(uuid, error.code, error.message) for uuid, error in taken.refused]
        places += taken.places
    # Once, so that each child is told of all its instances in as few calls as they fit into.
    _wake(zone.wake, asked, places)
    return accepted, refused


def soft_delete(zone: Zone, caller: Caller, uuid: str) -> bool:
    """Stop an instance that is deleted for good once it may not be restored any more.

    Returns whether it is one now: it is to be deleted at once where a parent has it, or its status has no
    place to keep. A repeat changes nothing. Raises NotFound and Conflict.
    """
    scope = scope_of(zone.uuid, caller, all_tenants=True)

    def fn(tx: Transaction) -> _Taken:
        locks.instances(tx, [uuid])
        [row] = _living(tx, scope, uuid)
        stored = instance_states.read(tx, [row.uuid]).get(row.uuid)
        state = stored.state if stored is not None else NEW
        if is_soft_deleted(row.status, state):
            return _Taken(1, (), ())
        if row.caller_id != zone.uuid or why_illegal(Action.SOFT_DELETE, row.status, state) is not None:
            return _Taken(0, (), ())
        taken = _take(zone, tx, caller, [row], Action.SOFT_DELETE)
        for _, error in taken.refused:
            raise error
        return taken

    taken = zone.store.write(fn)
    _wake(zone.wake, Action.SOFT_DELETE, taken.places)
    return taken.count > 0


def confirm_resize(zone: Zone, caller: Caller, uuid: str, generation: int) -> None:
    """Confirm the resize of an instance, unless it was acted on since it had this generation.

    Raises Conflict and NotFound.
    """

    def fn(tx: Transaction) -> _Taken:
        locks.instances(tx, [uuid])
        stored = instance_states.read(tx, [uuid])[uuid]
        if stored.state.desired.generation != generation:
            return _Taken(0, (), ())
        living = _living(tx, scope_of(zone.uuid, caller, all_tenants=True), uuid)
        taken = _take(zone, tx, caller, living, Action.CONFIRM_RESIZE)
        for _, error in taken.refused:
            raise error
        return taken

    _wake(zone.wake, Action.CONFIRM_RESIZE, zone.store.write(fn).places)


def _living(tx: Transaction, scope: server_list.Scope, uuid: str) -> list[Instance]:
    """Find an instance of the scope that is not deleted. Raises NotFound."""
    found = [i for i in server_list.find(tx, scope, uuid) if i.status is not InstanceStatus.DELETED]
    if not found:
        raise NotFound("There is no such instance.", code="instance_not_found")
    return found


def _prepared(zone: Zone, caller: Caller, uuids: Sequence[str], asked: AskedAction) -> Asked:
    match asked:
        case RebuildServer():
            return rebuilds.prepare(zone, uuids, asked)
        case ResizeServer():
            return resizes.prepare(zone, caller, uuids, asked)
        case _:
            return asked


def _wake(wake: Wake, asked: AskedAction, places: Sequence[Placement]) -> None:
    if asked is Action.UNSHELVE:
        wake.boots()
    elif isinstance(asked, MigrateServer):
        wake.moves()
    else:
        wake_for(wake, places)
    if isinstance(asked, ResizeServer):
        wake.moves()


def check_not_locked(tx: Transaction, caller: Caller, uuid: str) -> None:
    """Raise Conflict where the caller may not act on an instance because it is locked."""
    if caller.role is Role.MEMBER and uuid in instance_actions.locks(tx, [uuid]):
        raise locked(uuid)


def record_delete(
    tx: Transaction, caller: Caller, instance: Instance, request_id_of_create: str, now: float
) -> None:
    """Record that a user has deleted an instance for good, and how its build ended before.

    An instance of a parent may be sent here again after an admin has deleted it, and be deleted once more.
    """
    stored = instance_states.read(tx, [instance.uuid]).get(instance.uuid)
    if stored is not None and stored.state.reclaim_at:
        soft_deleted.forget(tx, [instance.uuid])
    was_built = stored is not None or instance.status is InstanceStatus.ACTIVE
    ended_at = instance.ended_at if instance.status is InstanceStatus.ERROR else now
    count = instance_actions.counts(tx, [instance.uuid]).get(instance.uuid, Count())
    created = InstanceAction(
        uuid=instance.uuid,
        number=0,
        action="create",
        request_id=request_id_of_create,
        user_id=instance.user_id,
        project_id=instance.project_id,
        generation=0,
        started_at=instance.created_at,
        finished_at=stored.built_at if stored is not None else instance.updated_at if was_built else ended_at,
        result=Result.DONE if was_built else Result.ERROR,
        reason="" if was_built else instance.reason or "server_deleted",
    )
    deleted = _action(caller, instance, "delete", count.last + 1, 0, now)
    ended = replace(deleted, finished_at=now, result=Result.DONE)
    instance_actions.insert(tx, [ended] if count.has_creation else [created, ended])


def _take_living(zone: Zone, caller: Caller, uuids: Sequence[str], asked: Asked, tx: Transaction) -> _Taken:
    locks.instances(tx, uuids)
    rows = instances.read_by_uuid(tx, uuids)
    living = [rows[uuid] for uuid in uuids if rows[uuid].status is not InstanceStatus.DELETED]
    if asked is not Action.RESTORE:
        states = {uuid: stored.state for uuid, stored in instance_states.read(tx, uuids).items()}
        living = [row for row in living if not is_soft_deleted(row.status, states.get(row.uuid, NEW))]
    return _take(zone, tx, caller, living, asked)


def _take(zone: Zone, tx: Transaction, caller: Caller, rows: Sequence[Instance], asked: Asked) -> _Taken:
    """Take an action on locked instances; one that is illegal writes nothing."""
    now = zone.clock.now()
    accepted: list[Subject] = []
    wanted: list[Wanted] = []
    refused: list[tuple[str, ZoneschedError]] = []
    subjects = _subjects(tx, rows)
    for subject in subjects:
        try:
            desired = judge(zone, tx, caller, subject, asked)
        except ZoneschedError as error:
            refused.append((subject.instance.uuid, error))
            continue
        accepted.append(subject)
        if desired is not None and subject.place is not None:
            wanted.append(Wanted(subject.instance, subject.place, desired))
    if not accepted:
        return _Taken(0, (), refused)
    uuids = [subject.instance.uuid for subject in accepted]
    match asked:
        case LockServer(reason):
            lock = Lock(reason, by_admin=caller.role is Role.ADMIN)
            instance_actions.lock(tx, uuids, reason, by_admin=lock.by_admin)
            _note_changed(tx, [s.instance.uuid for s in accepted if s.lock != lock], now)
        case UnlockServer():
            instance_actions.unlock(tx, uuids)
            _note_changed(tx, [s.instance.uuid for s in accepted if s.lock is not None], now)
        case Action() | Rebuild() | Resize():
            before = {s.instance.uuid: s.stored for s in accepted if s.stored is not None}
            change = identity.next_change(tx)
            want(tx, wanted, before, change, now)
            if asked is Action.UNSHELVE:
                place_again(tx, change, [w.instance for w in wanted], now)
            if asked is Action.SOFT_DELETE:
                soft_deleted.keep(tx, uuids, now, zone.conf.reclaim_instance_interval)
            if asked is Action.RESTORE:
                soft_deleted.forget(tx, uuids)
        case MigrateServer(host):
            change = identity.next_change(tx)
            for one in accepted:
                beginning.begin(zone.clock, tx, change, one.instance, one.place, host, one.count.last + 1)
    _record(tx, caller, accepted, asked, {w.instance.uuid: w.desired.generation for w in wanted}, now)
    match asked:
        case Rebuild():
            _rebuild(zone, tx, wanted, asked, now)
        case Resize() | Action.CONFIRM_RESIZE | Action.REVERT_RESIZE:
            known = {s.instance.uuid: s.stored for s in accepted if s.stored is not None}
            change = identity.next_change(tx)
            if isinstance(asked, Resize):
                for resized in wanted:
                    resizes.change_details(tx, change, resized.instance, asked.asked, now)
            resizing.carry_on(zone, tx, change, wanted, known, now)
    # The end of a resize is work for the hosts of both places.
    is_end = asked is Action.CONFIRM_RESIZE
    places = placements.read_by_uuid(tx, uuids) if is_end else [w.place for w in wanted]
    return _Taken(len(accepted), places, refused)


def _note_changed(tx: Transaction, uuids: Sequence[str], now: float) -> None:
    """Note that instances have changed which no other zone has to be told."""
    if uuids:
        built_times.note(tx, uuids)
        instances.touch(tx, identity.next_change(tx), uuids, now)


def _rebuild(zone: Zone, tx: Transaction, wanted: Sequence[Wanted], asked: Rebuild, now: float) -> None:
    """Change what owners keep with rebuilt instances; end the rebuilds that hosts of this zone refuse."""
    change = identity.next_change(tx)
    for one in wanted:
        rebuilds.change_details(zone, tx, change, one.instance, asked.asked)
    reasons = {one.instance.uuid: asked.fit.refusal(one.place) for one in wanted}
    observe(tx, change, image_fit.refused(tx, reasons), {}, now)


def _subjects(tx: Transaction, rows: Sequence[Instance]) -> list[Subject]:
    uuids = [row.uuid for row in rows]
    attempts = {(row.uuid, row.attempt) for row in rows}
    places = {p.uuid: p for p in placements.read_by_uuid(tx, uuids) if p.key in attempts}
    states, held = instance_states.read(tx, uuids), instance_actions.locks(tx, uuids)
    counts = instance_actions.counts(tx, uuids)
    return [
        Subject(
            row, places.get(row.uuid), states.get(row.uuid), held.get(row.uuid), counts.get(row.uuid, Count())
        )
        for row in rows
    ]


def _record(
    tx: Transaction,
    caller: Caller,
    subjects: Sequence[Subject],
    asked: Asked,
    generations: Mapping[str, int],
    now: float,
) -> None:
    actions: list[InstanceAction] = []
    for subject in subjects:
        instance, number = subject.instance, subject.count.last + 1
        match asked:
            case Action() | Rebuild() | Resize():
                name = _recorded_as(asked)
                generation = generations[instance.uuid]
                actions.append(_action(caller, instance, name, number, generation, now))
            case LockServer() | UnlockServer():
                name = "lock" if isinstance(asked, LockServer) else "unlock"
                done = _action(caller, instance, name, number, 0, now)
                actions.append(replace(done, finished_at=now, result=Result.DONE))
            case MigrateServer():
                name = Action.MIGRATE.recorded_as
                actions.append(_action(caller, instance, name, number, 0, now))
    instance_actions.insert(tx, actions)


def _recorded_as(asked: Action | Rebuild | Resize) -> str:
    match asked:
        case Rebuild():
            return Action.REBUILD.recorded_as
        case Resize():
            return Action.RESIZE.recorded_as
        case _:
            return asked.recorded_as


def _action(
    caller: Caller, instance: Instance, name: str, number: int, generation: int, now: float
) -> InstanceAction:
    return InstanceAction(
        uuid=instance.uuid,
        number=number,
        action=name,
        request_id=tracing.current().request_id,
        user_id=caller.user_id,
        # A zone that acts by itself has no project.
        project_id=caller.project_id or instance.project_id,
        generation=generation,
        started_at=now,
    )
