"""Holds of parents that end without a confirm: their capacity and duration are charged to the parent.

They are charged after their end is durable: a process that dies in between charges nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from zonesched.model.placement import PlacementState
from zonesched.services.state.quotas import IdleShare
from zonesched.services.zone import Zone
from zonesched.store import instances
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction

_HOLDING = (PlacementState.HELD, PlacementState.INTENDED)


@dataclass(frozen=True)
class IdleHold:
    """Hold of a parent that ends without a confirm, after so many seconds."""

    placement: Placement
    held_s: float


def ending(tx: Transaction, zone_uuid: str, ended: Sequence[Placement], now: float) -> list[IdleHold]:
    """Return the idle holds of parents among placements that are about to end, as they were read."""
    # A parent's hold has used up an entry; one without is of a move, which this zone's admin began.
    held = [p for p in ended if p.caller_id != zone_uuid and p.state in _HOLDING and p.entry_key]
    # An instance is not changed while it is held.
    since = instances.updated_at(tx, [p.uuid for p in held]) if held else {}
    return [IdleHold(p, max(0.0, min(now, p.hold_expires_at) - since.get(p.uuid, now))) for p in held]


def charge(zone: Zone, ended: Sequence[IdleHold]) -> None:
    """Charge the parents for these holds."""
    if not ended:
        return
    with zone.hosts.current() as table:
        alive = table.alive
        totals = {name: float(table.capacity(name)[alive].sum()) for name in table.resource_classes}
    shares: defaultdict[str, IdleShare] = defaultdict(IdleShare)
    for hold in ended:
        shares[hold.placement.caller_id] = _with(shares[hold.placement.caller_id], hold, totals)

    def fn(tx: Transaction) -> None:
        for parent_id, share in sorted(shares.items()):
            zone.quotas.charge_idle(tx, parent_id, share)

    zone.store.write(fn)


def _with(share: IdleShare, hold: IdleHold, totals: dict[str, float]) -> IdleShare:
    where, held_s = hold.placement.where, hold.held_s
    if not isinstance(where, ClaimedHost):
        return IdleShare(share.local_zone_seconds, share.child_seconds + held_s)
    part = max(
        (amount / totals[name] for name, amount in where.resources.items() if totals.get(name)), default=0.0
    )
    return IdleShare(share.local_zone_seconds + part * held_s, share.child_seconds)
