"""The end of what nobody confirmed: holds that are over, and rows that nobody can ask for any more."""

from __future__ import annotations

from zonesched.model.placement import PlacementState
from zonesched.services.placement_moves import advance
from zonesched.services.zone import Zone
from zonesched.store import identity, inbound, placements
from zonesched.store.placements import InChild, Placement
from zonesched.store.store import Transaction

State = PlacementState
BATCH = 1000


def reap(zone: Zone) -> None:
    """End overdue holds (own hosts' claims are given back at once, children are told) and prune old rows."""
    zone.store.write(lambda tx: _end_overdue(zone, tx))
    zone.store.write(lambda tx: inbound.prune(tx, zone.clock.now()))
    zone.wake_callers()


def _end_overdue(zone: Zone, tx: Transaction) -> None:
    now = zone.clock.now()
    column = placements.COLUMNS
    unconfirmed = [s.value for s in (State.INTENDED, State.HELD, State.CANCELLING)]
    overdue = placements.read(tx, column.state.in_(unconfirmed), column.hold_expires_at <= now, limit=BATCH)
    if not overdue:
        return
    change = identity.next_change(tx)
    for p in overdue:
        advance(tx, change, zone.uuid, p, _end_of(p), now, reason="hold_expired")


def _end_of(placement: Placement) -> PlacementState:
    """A child is told once more to let go; a place that was being cancelled is over, with or without answer.

    It was never confirmed, and the child's own reaper ends its hold, so it can never be built.
    """
    in_child = isinstance(placement.where, InChild)
    return State.CANCELLING if in_child and placement.state is not State.CANCELLING else State.GONE
