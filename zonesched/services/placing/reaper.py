"""Reaper of expired holds and of old tombstones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from zonesched.model.placement import HOLD_LATE, PlacementState
from zonesched.services.placing import idle_holds
from zonesched.services.placing.idle_holds import IdleHold
from zonesched.services.placing.placement_moves import advance
from zonesched.services.zone import Zone
from zonesched.store import identity, inbound, locks, placements
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

State = PlacementState
BATCH = 1000


def reap(zone: Zone) -> None:
    """End expired holds, release their claims, call their children, and prune old tombstones."""
    now = zone.clock.now()

    def fn(tx: Transaction) -> list[IdleHold]:
        overdue = placements.overdue_holds(tx, now, BATCH)
        idle: list[IdleHold] = []
        if overdue:
            locks.instances(tx, [p.uuid for p in overdue])
            held = idle_holds.ending(tx, zone.uuid, overdue, now)
            ended = end_holds(tx, identity.next_change(tx), zone.uuid, overdue, now)
            idle = [hold for hold in held if hold.placement.key in ended]
        inbound.prune(tx, now)
        return idle

    idle_holds.charge(zone, zone.store.write(fn))
    zone.wake.child_calls()


def end_holds(
    tx: Transaction, change: int, zone_uuid: str, overdue: Sequence[Placement], now: float
) -> set[tuple[str, int]]:
    """End expired holds, except those that have moved since they were read; return those that ended."""
    by_end: defaultdict[tuple[PlacementState, str], list[Placement]] = defaultdict(list)
    for p in overdue:
        by_end[_end_of(p), _reason_of(p, zone_uuid)].append(p)
    ended: set[tuple[str, int]] = set()
    for (to, reason), some in by_end.items():
        ended |= {p.key for p in advance(tx, change, zone_uuid, some, to, now, reason=reason)}
    return ended


def _reason_of(placement: Placement, zone_uuid: str) -> str:
    """Return why a placement ends with its hold: what was cancelled keeps its reason."""
    match placement.state:
        case State.CANCELLING if placement.reason:
            return placement.reason
        case State.HELD if placement.caller_id == zone_uuid:
            return HOLD_LATE
    return "hold_expired"


def _end_of(placement: Placement) -> PlacementState:
    """Return the state of a placement whose hold has expired.

    A child gets a cancel. A placement whose cancel is unanswered is GONE: it was never confirmed, and the
    child's own reaper ends its hold, so it can never be built.
    """
    in_child = isinstance(placement.where, AskedChild)
    return State.CANCELLING if in_child and placement.state is not State.CANCELLING else State.GONE
