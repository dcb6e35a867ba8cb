"""Pruning of boots that were deleted long ago, a bounded number at a time."""

from __future__ import annotations

from zonesched.services.zone import Zone
from zonesched.store import ended
from zonesched.store.ended import Key, Mark, PruneBounds
from zonesched.store.store import Transaction

BATCH = 500
NEXT_BATCH_S = 1.0
NEXT_ROUND_S = 60.0


class Pruning:
    """Rounds through all instances deleted longer than `ended_retention` ago, oldest first."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._mark = Mark()

    def step(self) -> float:
        """Delete the rows of the next batch of ended boots; return the seconds until the next batch."""
        zone, mark = self._zone, self._mark
        now = zone.clock.now()
        bounds = PruneBounds(zone.uuid, now - zone.conf.ended_retention, now)

        def find(tx: Transaction) -> tuple[list[Key], Mark | None]:
            return ended.deleted_after(tx, mark, bounds, BATCH)

        keys, reached = zone.store.read(find)
        if keys:
            zone.store.write(lambda tx: ended.forget(tx, keys, bounds))
        self._mark = reached or Mark()
        return NEXT_BATCH_S if reached else NEXT_ROUND_S
