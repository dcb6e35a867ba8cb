"""One placement's next state, with everything that follows from it, in one transaction."""

from __future__ import annotations

from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.store import instances, placements, reservations
from zonesched.store.placements import InChild, Placement
from zonesched.store.store import Transaction

State = PlacementState
UNENDED = (InstanceStatus.BUILD, InstanceStatus.UNKNOWN)


def advance(
    tx: Transaction,
    change: int,
    zone_uuid: str,
    placement: Placement,
    to: PlacementState,
    now: float,
    *,
    reason: str = "",
    hold_expires_at: float = 0.0,
) -> bool:
    """Move a placement that is not built yet; False, and nothing done, when it has moved since it was read.

    A place that came to nothing pokes the worker of an own reservation, which finds another; for a parent's
    the instance ends here, and the parent finds another.
    """
    moved = placements.move(
        tx, change, placement, to, reason=reason, hold_expires_at=hold_expires_at, next_call_at=now
    )
    if not moved:
        return False
    if to is State.CONFIRMED:
        instances.set_status(
            tx, change, [placement.uuid], InstanceStatus.BUILD, now, only_from=[InstanceStatus.UNKNOWN]
        )
    if to in (State.GONE, State.FAILED):
        if placement.caller_id == zone_uuid:
            reservations.poke(tx, placement.caller_id, placement.reservation_id)
        else:
            instances.set_status(
                tx,
                change,
                [placement.uuid],
                InstanceStatus.DELETED,
                now,
                reason=reason or placement.reason,
                only_from=UNENDED,
            )
    return True


def let_go(tx: Transaction, change: int, placement: Placement, now: float, reason: str) -> bool:
    """End a placement that is not wanted any more, built or not; True when a child has to be told.

    An own host's resources are given back here and now; a child is called until it has answered.
    """
    in_child = isinstance(placement.where, InChild)
    match placement.state:
        case State.INTENDED | State.HELD:
            to = State.CANCELLING if in_child else State.GONE
        case State.CONFIRMING | State.CONFIRMED:
            to = State.RELEASING if in_child else State.RELEASED
        case _:
            return False
    moved = placements.move(tx, change, placement, to, reason=reason, next_call_at=now)
    return moved and in_child
