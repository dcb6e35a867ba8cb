"""Heartbeats from a service group.

Each member of the group gets a heartbeat in its row, as after a call of the agent, so that all code judges
agents by the rows alone. An unavailable group changes nothing: the rows keep the time of the last
heartbeat, and agents whose group is unavailable call the zone itself.
"""

from __future__ import annotations

import logging

from zonesched.broker.contract import COMPUTE, key_of
from zonesched.outage_lines import OutageLines
from zonesched.service_group.contract import GroupUnavailable
from zonesched.services.zone import Zone
from zonesched.store import services

log = logging.getLogger(__name__)

MAX_PAUSE_S = 5.0
UNAVAILABLE_PAUSE_S = 2.0


class Membership:
    """Poller of the zone's service group in one process."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._lines = OutageLines(log, "the service group", "heartbeats come from calls alone")
        self._pause_s = min(MAX_PAUSE_S, zone.conf.service_down_time / 10)

    def step(self) -> float:
        """Note a heartbeat of all members; return the pause until the next poll."""
        zone = self._zone
        try:
            members = zone.group.members()
        except GroupUnavailable as error:
            self._lines.away(error)
            return float(min(UNAVAILABLE_PAUSE_S, self._pause_s))
        self._lines.back()
        # A heartbeat that another process has just written need not be written again.
        before = zone.clock.now() - zone.conf.service_down_time / 6
        for agent in zone.store.read(lambda tx: services.agents_without_heartbeat_since(tx, before)):
            if key_of(COMPUTE, agent.name) in members:
                zone.heartbeats.note(agent.id)
        return float(self._pause_s)
