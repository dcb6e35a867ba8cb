"""Evacuation of hosts whose agents have fenced them, without an operator.

The hosts of an agent that asks for its place from another home are left to it: its machine has started
again, and the zone gives it the place once its former self has been silent for long enough.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from zonesched.errors import Conflict, NotFound
from zonesched.services.hosts import evacuation
from zonesched.services.zone import Zone
from zonesched.store import fencing_promises, services
from zonesched.store.store import Transaction

log = logging.getLogger(__name__)

MAX_PAUSE_S = 5.0


def evacuate_fenced(zone: Zone) -> float:
    """Look which agents have fenced their hosts, and evacuate those if the zone does; return the pause."""
    zone.fences.look()
    if zone.conf.evacuate_automatically and (over := zone.fences.over()):
        for host_id in zone.store.read(lambda tx: _deserted(zone, tx, over)):
            _evacuate(zone, host_id)
    return float(min(MAX_PAUSE_S, zone.conf.service_down_time / 6))


def _deserted(zone: Zone, tx: Transaction, over: Sequence[str]) -> list[str]:
    """List the occupied hosts of these services whose agents do not ask for their places."""
    asking = services.returned_since(tx, over, zone.clock.now(), zone.silences.longest_pause_s)
    return fencing_promises.occupied_hosts(tx, [id for id in over if id not in asking])


def _evacuate(zone: Zone, host_id: str) -> None:
    try:
        count, _ = evacuation.evacuate_host(zone, zone.uuid, host_id, fenced=False)
    except (Conflict, NotFound):
        # Its agent is back, or the host was removed.
        return
    if count:
        log.warning("evacuated %d instances from host %s, which its agent has fenced", count, host_id)
