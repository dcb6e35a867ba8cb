"""Moves of placements with all their consequences, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.store import instances, placements, reservations
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.prepared import run_text
from zonesched.store.store import Transaction

State = PlacementState


def advance(
    tx: Transaction,
    change: int,
    zone_uuid: str,
    advanced: Iterable[Placement],
    to: PlacementState,
    now: float,
    *,
    reason: str = "",
    hold_expires_at: float = 0.0,
    repeat_in_s: float = 0.0,
) -> list[Placement]:
    """Move placements that are not built yet, except those that have moved since they were read.

    `repeat_in_s`: the caller calls the children at once; the first repeat is due after `repeat_in_s`.

    Returns the moved placements as they are now, with reasons as they were read.

    A failed or cancelled placement wakes the worker of an own reservation, which finds another place; a
    parent's instance ends here, and the parent finds another place.
    """
    moved = placements.move_all(
        tx,
        change,
        advanced,
        to,
        reason=reason,
        hold_expires_at=hold_expires_at,
        next_call_at=now + repeat_in_s,
    )
    if to is State.CONFIRMED:
        uuids = [p.uuid for p in moved]
        unknown = [InstanceStatus.UNKNOWN]
        instances.set_status(tx, change, uuids, InstanceStatus.BUILD, now, only_from=unknown)
    if to in (State.GONE, State.FAILED):
        for caller_id, reservation_id in sorted({(p.caller_id, p.reservation_id) for p in moved}):
            if caller_id == zone_uuid:
                reservations.wake(tx, caller_id, reservation_id)
    if to in (State.GONE, State.FAILED, State.RELEASED):
        # One that was released unbuilt is a build that its child confirmed before it heard of the cancel.
        _end_instances(tx, change, [p for p in moved if p.caller_id != zone_uuid], reason, now)
    if hold_expires_at:
        return [p.in_state(to, hold_expires_at=hold_expires_at) for p in moved]
    return [p.in_state(to) for p in moved]


def advance_together(
    tx: Transaction,
    change: int,
    zone_uuid: str,
    advanced: Sequence[Placement],
    to: PlacementState,
    now: float,
    *,
    hold_expires_at: float,
    repeat_in_s: float,
) -> list[Placement]:
    """Move all of these placements as `advance` does, or none if one of them has moved since it was read."""
    run_text(tx, "SAVEPOINT all_moved")
    moved = advance(
        tx,
        change,
        zone_uuid,
        advanced,
        to,
        now,
        hold_expires_at=hold_expires_at,
        repeat_in_s=repeat_in_s,
    )
    if len(moved) < len(advanced):
        moved = []
        run_text(tx, "ROLLBACK TO all_moved")
    run_text(tx, "RELEASE all_moved")
    return moved


def _end_instances(tx: Transaction, change: int, ended: Iterable[Placement], reason: str, now: float) -> None:
    """End the instances whose present placements these are; an instance that has moved on stays."""
    by_reason: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for p in ended:
        by_reason[reason or p.reason][p.uuid] = p.number
    for why, attempts in by_reason.items():
        instances.end_attempts(tx, change, attempts, InstanceStatus.DELETED, now, reason=why)


def end_unwanted(
    tx: Transaction, change: int, unwanted: Iterable[Placement], now: float, reason: str
) -> bool:
    """End placements that are no longer wanted, built or not; True when a child must be called.

    Claims on local hosts are released at once; a child is called until it has answered.
    """
    by_end: defaultdict[PlacementState, list[Placement]] = defaultdict(list)
    for p in unwanted:
        in_child = isinstance(p.where, AskedChild)
        match p.state:
            case State.INTENDED | State.HELD:
                by_end[State.CANCELLING if in_child else State.GONE].append(p)
            case State.CONFIRMING | State.CONFIRMED:
                by_end[State.RELEASING if in_child else State.RELEASED].append(p)
            case State.PARKED:
                by_end[State.RELEASED].append(p)
    moved = [
        p
        for to, some in by_end.items()
        for p in placements.move_all(tx, change, some, to, reason=reason, next_call_at=now)
    ]
    return any(isinstance(p.where, AskedChild) for p in moved)
