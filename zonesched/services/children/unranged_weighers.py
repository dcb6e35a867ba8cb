"""Children that report no range of a weigher of this zone, such as one that fails on all their hosts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set

from zonesched.scheduler.schedulers import Schedulers
from zonesched.zones.child import Ready
from zonesched.zones.zone_manager import ZoneManager

log = logging.getLogger(__name__)

Unranged = Mapping[str, tuple[str, Set[str]]]
"""Name of a child and the weighers of which it reports no range, by its id."""


def unranged(children: ZoneManager, schedulers: Schedulers) -> Unranged:
    """Find the children with hosts that report no range of a weigher which measures its range on hosts.

    One whose report is incomplete may have ranges that it does not list.
    """
    configured = schedulers.default.plugins.weighers.configured
    measured = {name for name, one in configured.items() if one.minval is None or one.maxval is None}
    infos = [(one.child, one.status.info) for one in children.snapshot() if isinstance(one.status, Ready)]
    return {
        child.id: (child.name, measured - info.ranges.keys())
        for child, info in infos
        if info.complete and info.capacities
    }


def log_new(before: Unranged, now: Unranged) -> None:
    """Log the weighers of which a child has no range any more, or in its first report."""
    for child_id, (child, names) in now.items():
        if new := names - before.get(child_id, ("", frozenset()))[1]:
            log.warning(
                "child zone %s reports no range of %s: its hosts are weighed without it or not offered;"
                " its log says why a weigher fails, unless no host there is up",
                child,
                ", ".join(sorted(new)),
            )
