"""Repair of each kind of inconsistency in a zone's own rows.

Every function runs in the repair's one transaction, after `identity.next_change`. It returns a description of
its action, "" for none, and raises CannotTell for a row that it leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zonesched.model.inconsistency import (
    Inconsistency,
    OfEntry,
    OfGroup,
    OfInstance,
    OfInventory,
    OfPlace,
    OfReservation,
)
from zonesched.model.place import LocalPlace, Place
from zonesched.model.placement import (
    CLAIMING,
    LIVING_STATUSES,
    OCCUPYING,
    PLACELESS_STATUSES,
    TO_BUILD,
    WANTED,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.request_spec import GroupPolicy, ServerGroup
from zonesched.services.placing import reaper
from zonesched.services.placing.placement_moves import end_unwanted
from zonesched.services.zone import Zone
from zonesched.store import (
    audit_actions,
    audit_groups,
    capacities,
    claims,
    group_places,
    instance_states,
    instances,
    placements,
    repairs,
    server_history,
)
from zonesched.store.audit_groups import Member
from zonesched.store.instances import Instance
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction

State = PlacementState


class CannotTell(Exception):
    """An inconsistency that is left, and the reason."""


@dataclass(frozen=True)
class Repair:
    """One repair: the zone, its open transaction, the number of its change, and the time."""

    zone: Zone
    tx: Transaction
    change: int
    now: float

    def leave_to_worker(self, caller_id: str, reservation_id: str) -> None:
        """Raise CannotTell while a worker holds a lease of this boot."""
        if repairs.is_leased(self.tx, caller_id, reservation_id, self.now):
            raise CannotTell("a worker has leased this boot: run the repair again")


def leave_to_operator(repair: Repair, found: Inconsistency) -> str:
    """Leave what no row can say any more."""
    raise CannotTell(server_history.REMEDY)


# -- places ------------------------------------------------------------------------------------------------


def keep_one_place(repair: Repair, found: Inconsistency) -> str:
    """Leave one placement to an instance that is wanted, and none to one that has ended."""
    assert isinstance(found.subject, OfPlace | OfInstance)
    uuid = found.subject.uuid
    places = placements.read_by_uuid(repair.tx, [uuid])
    instance = instances.read_by_uuid(repair.tx, [uuid]).get(uuid)
    if instance is None:
        return _restore_or_release(repair, uuid, places)
    repair.leave_to_worker(instance.caller_id, instance.reservation_id)
    if instance.status in PLACELESS_STATUSES:
        keeps_below = instance.status is InstanceStatus.ERROR
        unwanted = [p for p in places if isinstance(p.where, ClaimedHost) or not keeps_below]
        ended = _release(repair, unwanted)
        return f"the instance is {instance.status.value}: {ended} released" if ended else ""
    return _keep_one(repair, instance, places)


def _keep_one(repair: Repair, instance: Instance, places: Sequence[Placement]) -> str:
    """Choose the present placement if it is built, else a built one, else the present one."""
    living = [p for p in places if p.state in WANTED]
    built = sorted(
        (p for p in living if p.state in TO_BUILD),
        key=lambda p: (p.number == instance.attempt, p.state is State.CONFIRMED, p.number),
    )
    present = [p for p in living if p.number == instance.attempt]
    if not built and not present:
        return ""
    kept = built[-1] if built else present[0]
    others = [p for p in living if p is not kept]
    if kept.number != instance.attempt:
        attempts = {instance.uuid: kept.number}
        instances.set_attempts(repair.tx, repair.change, attempts, instance.status, repair.now)
    ended = _release(repair, others)
    if not ended and kept.number == instance.attempt:
        return ""
    return f"place {kept.number} is kept, {ended} released"


def _restore_or_release(repair: Repair, uuid: str, places: Sequence[Placement]) -> str:
    if repairs.restore_instance(repair.tx, repair.change, uuid, repair.now):
        return "the instance is restored from its boot and its place"
    if any(p.state in WANTED and not isinstance(p.where, ClaimedHost) for p in places):
        raise CannotTell("instance and boot are missing: the owner of the child's instance is unknown")
    # Without its boot, no agent gets it as work.
    ended = _release(repair, places)
    return f"instance and boot are missing: {ended} released" if ended else ""


def _release(repair: Repair, places: Sequence[Placement]) -> str:
    ended = [p for p in places if p.state in WANTED or p.state is State.PARKED]
    end_unwanted(repair.tx, repair.change, ended, repair.now, "repaired")
    return " and ".join(f"place {p.number}" for p in ended)


def find_or_end(repair: Repair, found: Inconsistency) -> str:
    """Place an instance again that was never built, or is unshelved.

    Set a built one to ERROR, since its place is unknown.
    """
    assert isinstance(found.subject, OfInstance)
    uuid = found.subject.uuid
    instance = instances.read_by_uuid(repair.tx, [uuid])[uuid]
    places = placements.read_by_uuid(repair.tx, [uuid])
    present = [p for p in places if p.number == instance.attempt]
    if instance.status in PLACELESS_STATUSES or any(p.state in OCCUPYING for p in present):
        return ""
    repair.leave_to_worker(instance.caller_id, instance.reservation_id)
    own = instance.caller_id == repair.zone.uuid
    has_left = instance_states.is_offloaded(repair.tx, uuid)
    unbuilt = (State.GONE, State.FAILED, State.RELEASED) if has_left else (State.GONE, State.FAILED)
    is_unbuilt = instance.status is InstanceStatus.BUILD and all(p.state in unbuilt for p in present)
    if own and is_unbuilt:
        repairs.make_due(repair.tx, instance.caller_id, instance.reservation_id, repair.now)
        return "its boot goes on: it finds a place or sets the reason"
    _end(repair, uuid, "place_lost")
    return "the instance is ERROR place_lost"


def _end(repair: Repair, uuid: str, reason: str) -> None:
    instances.set_status(
        repair.tx,
        repair.change,
        [uuid],
        InstanceStatus.ERROR,
        repair.now,
        reason=reason,
        only_from=LIVING_STATUSES,
    )


def end_hold(repair: Repair, found: Inconsistency) -> str:
    """End the hold as the reaper does."""
    assert isinstance(found.subject, OfPlace)
    for p in placements.read_by_uuid(repair.tx, [found.subject.uuid]):
        waits = p.state in (State.INTENDED, State.HELD)
        if p.number == found.subject.number and waits:
            repair.leave_to_worker(p.caller_id, p.reservation_id)
            reaper.end_holds(repair.tx, repair.change, repair.zone.uuid, [p], repair.now)
            return "the hold is ended"
    return ""


def keep_entry_once(repair: Repair, found: Inconsistency) -> str:
    """Keep the entry used up; the instances built from it run on, since each has a claim of its own."""
    assert isinstance(found.subject, OfEntry)
    others = repairs.keep_entry_once(repair.tx, found.subject.key)
    return f"the first place keeps the entry, {others} built from it as well run on"


# -- boots -------------------------------------------------------------------------------------------------


def make_due(repair: Repair, found: Inconsistency) -> str:
    """End the lease of a worker that is gone; the next free worker takes the boot."""
    assert isinstance(found.subject, OfReservation)
    repairs.make_due(repair.tx, found.subject.caller_id, found.subject.id, repair.now)
    return "the boot is due now, under a new lease"


def recount(repair: Repair, found: Inconsistency) -> str:
    """Set a boot's number to the instances that exist; write a new boot for an instance without one."""
    match found.subject:
        case OfReservation(id=reservation_id, caller_id=caller_id):
            repair.leave_to_worker(caller_id, reservation_id)
            count = repairs.recount(repair.tx, caller_id, reservation_id)
            return f"the boot is one of {count} instances" if count else "the empty boot is deleted"
        case OfInstance(uuid=uuid):
            restored = repairs.restore_boot(repair.tx, repair.zone.uuid, uuid, repair.now)
            return "its boot is restored from the instance" if restored else ""
    return ""


# -- hosts -------------------------------------------------------------------------------------------------


def recompute_used(repair: Repair, found: Inconsistency) -> str:
    """Recompute the used amounts from the claims, which count."""
    assert isinstance(found.subject, OfInventory)
    host_id, name = found.subject.host_id, found.subject.resource_class
    if not repairs.recompute_used(repair.tx, repair.change, host_id, name):
        raise CannotTell("the host no longer exists: delete the instances that were on it")
    return "used is the sum of the claims"


def recompute_capacity(repair: Repair, found: Inconsistency) -> str:
    """Recompute the capacity from the report, the operator's settings and the aggregates, which count."""
    assert isinstance(found.subject, OfInventory)
    capacities.recompute(repair.tx, [found.subject.host_id])
    claims.touch_hosts(repair.tx, repair.change, [found.subject.host_id])
    return "the capacity is recomputed"


def note_excess(repair: Repair, found: Inconsistency) -> str:
    """Note the excess: the instances run on, and the host takes none until they fit."""
    assert isinstance(found.subject, OfInventory)
    host_id, name = found.subject.host_id, found.subject.resource_class
    noted = repairs.note_excess(repair.tx, repair.change, host_id, name)
    return "the host counts as one that shrank: all run on, it takes none until it fits" if noted else ""


# -- groups ------------------------------------------------------------------------------------------------


def forget_group_place(repair: Repair, found: Inconsistency) -> str:
    """Delete the place of a group that no instance keeps."""
    assert isinstance(found.subject, OfGroup)
    gone = group_places.forget(repair.tx, found.subject.caller_id, found.subject.group_id)
    return "the place is released" if gone else ""


def gather_group(repair: Repair, found: Inconsistency) -> str:
    """Keep the group's place, else choose where most of it is; instances elsewhere leave the group."""
    assert isinstance(found.subject, OfGroup)
    key = (found.subject.caller_id, found.subject.group_id)
    members = audit_groups.members(repair.tx, key)
    if not members:
        return ""
    counted = Counter(m.place for m in members)
    taken = group_places.find(repair.tx, *key)
    place: Place = max(counted, key=lambda p: (p == taken, counted[p], str(p)))
    strays = [m.uuid for m in members if m.place != place]
    if place == taken and not strays:
        return ""
    if place != taken:
        group_places.point_to(repair.tx, *key, place)
    repairs.leave_group(repair.tx, repair.change, strays)
    return f"its place is where most of it is; {len(strays)} elsewhere leave the group and run on"


def thin_group(repair: Repair, found: Inconsistency) -> str:
    """Keep the oldest instances in the group; the others run on where they are, and leave it."""
    assert isinstance(found.subject, OfGroup)
    key = (found.subject.caller_id, found.subject.group_id)
    by_host: dict[str, list[Member]] = {}
    for member in audit_groups.members(repair.tx, key):
        if member.state in CLAIMING and isinstance(member.place, LocalPlace):
            by_host.setdefault(member.place.host_id, []).append(member)
    leaving = [uuid for on_host in by_host.values() for uuid in _beyond_limit(repair, on_host)]
    repairs.leave_group(repair.tx, repair.change, leaving)
    return f"{len(leaving)} leave the group and run on" if leaving else ""


def _beyond_limit(repair: Repair, members: Sequence[Member]) -> list[str]:
    groups = [m.group for m in members if isinstance(m.group, ServerGroup)]
    strict = [g for g in groups if g.policy is GroupPolicy.ANTI_AFFINITY]
    if not strict:
        return []
    limit = max(group.max_server_per_host for group in strict)
    rows = instances.read_by_uuid(repair.tx, [m.uuid for m in members])
    oldest_first = sorted(rows.values(), key=lambda i: (i.created_at, i.uuid))
    return [i.uuid for i in oldest_first[limit:]]


# -- actions -----------------------------------------------------------------------------------------------


def end_actions(repair: Repair, found: Inconsistency) -> str:
    """End actions whose instance has ended, or whose generation was reached."""
    assert isinstance(found.subject, OfInstance)
    ended = audit_actions.end_open(repair.tx, found.subject.uuid, repair.now)
    return f"{ended} actions end" if ended else ""
