"""The return of a child: what waited for it, with pauses that had grown meanwhile, goes on at once."""

from __future__ import annotations

from collections.abc import Collection

from zonesched.services.zone import Zone
from zonesched.store import child_placements
from zonesched.zones.child import Ready


def ready_ids(zone: Zone) -> frozenset[str]:
    """The children that are ready, by id."""
    return frozenset(k.child.id for k in zone.children.snapshot() if isinstance(k.status, Ready))


def wake_waiting_for(zone: Zone, child_ids: Collection[str]) -> None:
    """Make pending calls to these children due, and wake pending calls, sync and boots.

    The answers move the placements that boots wait for, which makes those boots due in turn.
    """
    zone.store.write(lambda tx: child_placements.make_calls_due(tx, sorted(child_ids)))
    zone.wake.child_calls()
    zone.wake.sync()
    zone.wake.boots()
