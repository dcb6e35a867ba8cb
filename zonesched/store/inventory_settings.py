"""Operators' settings of hosts' inventories; agents' reports do not change them."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.capacity import NOTHING_SET, InventorySetting
from zonesched.store import capacities, claims, identity
from zonesched.store import tables as t

COLUMNS = t.inventory_settings.c


def replace(tx: Connection, host_id: str, settings: Mapping[str, InventorySetting]) -> None:
    """Replace a host's settings, by resource class; they take effect at once."""
    seq = identity.next_change(tx)
    tx.execute(sa.delete(t.inventory_settings).where(COLUMNS.host_id == host_id))
    rows = [
        {"host_id": host_id, "resource_class": name, **vars(setting)}
        for name, setting in sorted(settings.items())
        if setting != NOTHING_SET
    ]
    if rows:
        tx.execute(sa.insert(t.inventory_settings), rows)
    capacities.recompute(tx, [host_id])
    claims.touch_hosts(tx, seq, [host_id])
