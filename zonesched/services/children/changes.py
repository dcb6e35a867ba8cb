"""Changes of instances that a child reports, applied to this zone's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zonesched.model.named_boot import GivenBack
from zonesched.model.observed_state import NO_MOVES, MoveCounts, Observed
from zonesched.model.placement import (
    BELIEVED_LOST,
    LIVING_STATUSES,
    TO_BUILD,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.services.children import draining
from zonesched.services.life.given_back import GivenBackOf, Lacking, in_own_terms, lacking
from zonesched.services.life.leaving import leave
from zonesched.services.life.observing import observe_in_child
from zonesched.services.life.shelving import SHELVED, note_offloaded
from zonesched.services.placing.build_retry import build_failed, lock_with_alternates
from zonesched.services.state.wake import Wake
from zonesched.services.zone import Zone
from zonesched.store import identity, instance_states, instances, placements
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

State = PlacementState


def wake_for(wake: Wake, items: Sequence[InstanceChange]) -> None:
    """Wake the listeners for these changes: boot workers for failed builds, and calls that end instances."""
    if any(item.state is BuildState.FAILED for item in items):
        wake.boots()
    if any(item.status in (InstanceStatus.ERROR, InstanceStatus.OFFLOADED) for item in items):
        wake.child_calls()
    if any(item.status is InstanceStatus.OFFLOADED for item in items):
        wake.boots()


def apply_changes(
    zone: Zone,
    child_id: str,
    items: Sequence[InstanceChange],
    tx: Transaction,
    given_back: GivenBackOf,
) -> Lacking | None:
    """Apply a child's changes to the instances whose present placement they name.

    A change of an attempt whose confirm is unanswered counts as that answer. A failed build is tried
    elsewhere; the remains of an instance in ERROR are deleted in the child, unless a zone below has lost it
    and may find it again, and so is one that it had ended. Nothing is written where the child is first to be
    asked for more.
    """
    items = _news(tx, items)
    if not items:
        return None
    failed = [item.uuid for item in items if item.state is BuildState.FAILED]
    lock_with_alternates(tx, [item.uuid for item in items], failed)
    change, now = identity.next_change(tx), zone.clock.now()
    places = {p.key: p for p in placements.read_by_uuid(tx, [item.uuid for item in items])}
    rows = instances.read_by_uuid(tx, [item.uuid for item in items])
    there = [(item, p) for item in items if (p := _place_there(places, child_id, item)) is not None]
    alive = [(item, place) for item, place in there if _is_alive(item, place, rows[item.uuid])]
    seen = [item for item, _ in alive]
    observed = _observed(seen)
    states = instance_states.read(tx, [uuid for uuid, _ in observed])
    if (unasked := lacking(states, observed, given_back)) is not None:
        return unasked
    _end_again(tx, change, _come_back(items, places, rows, child_id), now)
    for item, place in there:
        if item.state is BuildState.FAILED:
            build_failed(zone, tx, change, place, now, item.reason or "build_failed")
    for item, place in alive:
        _take_over(tx, change, place, rows[item.uuid], item, now)
    is_active = InstanceStatus.ACTIVE
    built_at = {u: row.updated_at if row.status is is_active else now for u, row in rows.items()}
    note_states(tx, change, seen, states, built_at, now, in_own_terms(tx, given_back))
    _rest(zone, tx, change, [p for item, p in alive if item.status is InstanceStatus.OFFLOADED], now)
    return None


def _come_back(
    items: Sequence[InstanceChange],
    places: Mapping[tuple[str, int], Placement],
    rows: Mapping[str, Instance],
    child_id: str,
) -> list[Placement]:
    """Return the places that a child had ended, and that it has again since it was put back from a copy.

    One that was lost there may be what its owner still wants: a repair decides.
    """
    found: list[Placement] = []
    for item in items:
        place, row = places.get((item.uuid, item.attempt)), rows.get(item.uuid)
        if place is None or row is None or place.state is not State.RELEASED:
            continue
        is_theirs = isinstance(place.where, AskedChild) and place.where.child_id == child_id
        is_lost = row.status is InstanceStatus.ERROR and row.attempt == item.attempt
        is_alive = item.status in LIVING_STATUSES and item.state is BuildState.CONFIRMED
        if is_theirs and is_alive and not is_lost:
            found.append(place)
    return found


def _end_again(tx: Transaction, change: int, places: Sequence[Placement], now: float) -> None:
    """Ask the child again to end what it has: the instance may be elsewhere by now."""
    placements.move_all(tx, change, places, State.RELEASING, next_call_at=now, repair=True)


def _place_there(
    places: Mapping[tuple[str, int], Placement], child_id: str, item: InstanceChange
) -> Placement | None:
    """Return the place that a change is about; None if that is not the child's, or not to be built."""
    place = places.get((item.uuid, item.attempt))
    if place is None or not isinstance(place.where, AskedChild) or place.where.child_id != child_id:
        return None
    return place if place.state in TO_BUILD else None


def _is_alive(item: InstanceChange, place: Placement, row: Instance) -> bool:
    """Tell whether a change is about an instance that is built at its present place."""
    if item.state is BuildState.FAILED:
        return False
    if place.state is State.CONFIRMING and item.state is not BuildState.CONFIRMED:
        return False
    if row.attempt != item.attempt:
        return False
    return row.status in LIVING_STATUSES or (_is_believed_lost(row) and item.status in LIVING_STATUSES)


def _is_believed_lost(one: Instance | InstanceChange) -> bool:
    return one.status is InstanceStatus.ERROR and one.reason in BELIEVED_LOST


def _observed(items: Sequence[InstanceChange]) -> list[tuple[str, Observed]]:
    """Return what a child has observed of instances that live there, or lived there."""
    return [
        (item.uuid, item.observed)
        for item in items
        if item.observed is not None and item.status in (InstanceStatus.ACTIVE, InstanceStatus.OFFLOADED)
    ]


def note_states(
    tx: Transaction,
    change: int,
    items: Sequence[InstanceChange],
    rows: Mapping[str, StoredState],
    built_at: Mapping[str, float],
    now: float,
    given_back: Mapping[str, GivenBack],
) -> None:
    """Note what a child has observed of instances that live there, and which of them move.

    `rows`: the states that were known of them. `given_back`: what those have that it knows better.
    """
    seen = _observed(items)
    if seen:
        observe_in_child(tx, change, rows, seen, built_at, given_back, now)
    there = (InstanceStatus.ACTIVE, InstanceStatus.OFFLOADED)
    moving = {item.uuid: item.moves for item in items if item.status in there}
    if moving:
        _note_moves(tx, change, moving, built_at, now)


def _rest(zone: Zone, tx: Transaction, change: int, left: Sequence[Placement], now: float) -> None:
    """Let shelved instances rest of which a child has nothing left; the child evacuated any others.

    Those are placed anew, as often as a failed build is; so are drained ones.
    """
    shelved = note_offloaded(tx, change, left, now)
    draining.place_anew(zone.uuid, tx, change, shelved, now)
    lost = [place for place in left if place.uuid not in shelved]
    tried = {place.uuid: instances.note_failed_build(tx, place.uuid) for place in lost}
    resting = [uuid for uuid, count in tried.items() if count >= zone.conf.max_attempts]
    leave(tx, change, zone.uuid, lost, now, user_id=zone.uuid, resting=resting)


def _note_moves(
    tx: Transaction,
    change: int,
    moving: Mapping[str, MoveCounts],
    built_at: Mapping[str, float],
    now: float,
) -> None:
    """Note which instances move inside a child, for their owners and this zone's own parent.

    A child that was put back from a copy counts fewer moves than it did. So does an old answer about one
    instance, but then a later page of the feed has it as well.
    """
    rows = instance_states.read(tx, sorted(moving))
    other = [
        (rows.get(uuid) or StoredState(uuid, built_at=built_at[uuid])).moving(moves)
        for uuid, moves in sorted(moving.items())
        if moves != (rows[uuid].state.moves if uuid in rows else NO_MOVES)
    ]
    instance_states.write(tx, other, rows.keys())
    if other:
        instances.touch(tx, change, [row.uuid for row in other], now)


def _news(tx: Transaction, items: Sequence[InstanceChange]) -> list[InstanceChange]:
    """Leave out changes that the rows already have: most came with the answers to this zone's own calls.

    Of several about one attempt, which only a lying child sends, the last one counts.
    """
    last = {(item.uuid, item.attempt): item for item in items}
    known = placements.without_fault(tx, [item.uuid for item in items])
    confirmed = State.CONFIRMED.value
    return [
        item
        for item in last.values()
        if item.state is not BuildState.CONFIRMED
        or item.observed is not None
        or known.get((item.uuid, item.attempt)) != (confirmed, item.status.value)
    ]


def _take_over(
    tx: Transaction, change: int, place: Placement, row: Instance, item: InstanceChange, now: float
) -> None:
    """Set the status of an instance that was built in a child; its placement ends with it."""
    match item.status:
        case InstanceStatus.DELETED:
            # This zone did not delete it; the child's admin did. Nobody has said that nothing runs there, so
            # it does not rest either where it was being shelved: unshelved, it might run twice.
            placements.move(tx, change, place, State.RELEASED, reason="deleted_in_child")
            status, reason = InstanceStatus.ERROR, "deleted_in_child"
        case InstanceStatus.ERROR if _is_believed_lost(item):
            # It may run in a zone below: it is deleted there only once its owner deletes it.
            if place.state is State.CONFIRMING:
                placements.move(tx, change, place, State.CONFIRMED)
            status, reason = InstanceStatus.ERROR, item.reason
        case InstanceStatus.ERROR:
            # Only a lying child gives no reason.
            status, reason = InstanceStatus.ERROR, item.reason or "build_failed"
            placements.move(tx, change, place, State.RELEASING, reason=reason, next_call_at=now)
        case InstanceStatus.OFFLOADED:
            # Nothing is left of it there but its row; `note_offloaded` sets the status.
            placements.move(tx, change, place, State.RELEASING, reason=SHELVED, next_call_at=now)
            return
        case _:
            if place.state is State.CONFIRMING:
                placements.move(tx, change, place, State.CONFIRMED)
            status, reason = item.status, ""
    if (status, reason) != (row.status, row.reason):
        instances.set_status(tx, change, [item.uuid], status, now, reason=reason)
