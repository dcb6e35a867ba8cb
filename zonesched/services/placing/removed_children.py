"""Children that another process of this zone has removed: an offer may be older than the end of its child."""

from __future__ import annotations

from collections.abc import Collection

from zonesched.services.zone import Zone
from zonesched.store import children
from zonesched.store.store import Transaction


def removed(zone: Zone, tx: Transaction, child_ids: Collection[str]) -> frozenset[str]:
    """Those of these children that are none any more; this process asks them nothing from here on.

    Who gives places in the others locks them first (`store.locks`), so that they stay until all is written.
    """
    gone = frozenset(child_ids) - children.registered(tx, child_ids)
    zone.children.forget(gone)
    return gone
