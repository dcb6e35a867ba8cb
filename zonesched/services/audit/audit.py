"""The audit: claims, instances and reservations of this zone, compared with each other."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.conf import Conf
from zonesched.model.inconsistency import Inconsistency
from zonesched.seams import Clock
from zonesched.services.recovery import settle
from zonesched.services.zone import Zone
from zonesched.store import audit as rows
from zonesched.store import recovery
from zonesched.store.audit import OverdueTimes
from zonesched.store.store import Transaction

GRACE_S = 60.0
"""Seconds by which background work may be late before it counts as an inconsistency."""


def run(zone: Zone) -> Sequence[Inconsistency]:
    """Find all inconsistencies in this zone's own rows, in one snapshot; a sound zone has none.

    Of a zone that was restored from a copy, only what its recovery waits for: its rows are old.
    """

    def fn(tx: Transaction) -> Sequence[Inconsistency]:
        found = settle.inconsistencies(zone.uuid, tx)
        if recovery.is_under_way(tx):
            return found
        return [*inconsistencies(zone.clock, zone.conf, zone.uuid, tx), *found]

    return zone.store.read(fn)


def inconsistencies(clock: Clock, conf: Conf, zone_uuid: str, tx: Transaction) -> Sequence[Inconsistency]:
    """Variant of `audit` in an open transaction."""
    now = clock.now()
    times = OverdueTimes(
        zone_uuid=zone_uuid,
        holds_overdue_before=now - 2 * conf.hold - GRACE_S,
        work_overdue_before=now - GRACE_S,
    )
    return rows.inconsistencies(tx, times)
