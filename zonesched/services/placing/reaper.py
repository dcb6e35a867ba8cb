"""Reaper of expired holds and of old tombstones."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.model.placement import PlacementState
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
    ended: set[tuple[str, int]] = set()
    for to in (State.CANCELLING, State.GONE):
        of_this_end = [p for p in overdue if _end_of(p) is to]
        ended |= {p.key for p in advance(tx, change, zone_uuid, of_this_end, to, now, reason="hold_expired")}
    return ended


def _end_of(placement: Placement) -> PlacementState:
    """Return the state of a placement whose hold has expired.

    A child gets a cancel. A placement whose cancel is unanswered is GONE: it was never confirmed, and the
    child's own reaper ends its hold, so it can never be built.
    """
    in_child = isinstance(placement.where, AskedChild)
    return State.CANCELLING if in_child and placement.state is not State.CANCELLING else State.GONE
