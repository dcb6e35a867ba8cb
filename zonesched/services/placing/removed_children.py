"""Children that another process of this zone has removed: an offer may be older than that."""

from __future__ import annotations

from collections.abc import Collection

from zonesched.store import children
from zonesched.store.store import Transaction
from zonesched.zones.zone_manager import ZoneManager


def removed(manager: ZoneManager, tx: Transaction, child_ids: Collection[str]) -> frozenset[str]:
    """Return the children of `child_ids` that are no longer registered; this process stops calling them.

    A caller that places instances in the other children has locked them (`store.locks`) against removal.
    """
    gone = frozenset(child_ids) - children.registered(tx, child_ids)
    manager.forget(gone)
    return gone
