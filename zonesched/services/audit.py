"""The audit: claims, instances and reservations of this zone, compared with each other. Repairs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.model.views import Difference
from zonesched.services.zone import Zone
from zonesched.store import audit as rows
from zonesched.store.audit import Limits

GRACE_S = 60.0
"""Seconds by which background work may be late before it counts as a difference."""


def run(zone: Zone) -> Sequence[Difference]:
    """All differences in this zone's own rows, in one snapshot; none is what must be found."""
    now = zone.clock.now()
    limits = Limits(
        zone_uuid=zone.uuid,
        holds_overdue_before=now - 2 * zone.conf.hold - GRACE_S,
        work_overdue_before=now - GRACE_S,
    )
    return zone.store.read(lambda tx: rows.differences(tx, limits))
