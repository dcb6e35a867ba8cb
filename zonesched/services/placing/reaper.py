"""The end of what nobody confirmed: holds that are over, and rows that nobody can ask for any more."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.model.placement import PlacementState
from zonesched.services.placing.placement_moves import advance
from zonesched.services.zone import Zone
from zonesched.store import identity, inbound, locks, placements
from zonesched.store.placements import InChild, Placement
from zonesched.store.store import Transaction

State = PlacementState
BATCH = 1000


def reap(zone: Zone) -> None:
    """End overdue holds (own hosts' claims are given back at once, children are told) and prune old rows."""
    now = zone.clock.now()

    def fn(tx: Transaction) -> None:
        overdue = placements.overdue_holds(tx, now, BATCH)
        if overdue:
            locks.instances(tx, [p.uuid for p in overdue])
            end_holds(tx, identity.next_change(tx), zone.uuid, overdue, now)
        inbound.prune(tx, now)

    zone.store.write(fn)
    zone.wake.child_calls()


def end_holds(tx: Transaction, change: int, zone_uuid: str, overdue: Sequence[Placement], now: float) -> None:
    """End holds whose time is over; nothing is done for one that has moved since it was read."""
    for to in (State.CANCELLING, State.GONE):
        ended = [p for p in overdue if _end_of(p) is to]
        advance(tx, change, zone_uuid, ended, to, now, reason="hold_expired")


def _end_of(placement: Placement) -> PlacementState:
    """A child is told once more to let go; a place that was being cancelled is over, with or without answer.

    It was never confirmed, and the child's own reaper ends its hold, so it can never be built.
    """
    in_child = isinstance(placement.where, InChild)
    return State.CANCELLING if in_child and placement.state is not State.CANCELLING else State.GONE
