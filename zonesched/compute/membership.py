"""Membership of an agent in its zone's service group: heartbeats there, beside the agent's loop."""

from __future__ import annotations

import logging
from collections.abc import Callable

from zonesched.compute.agent import Agent
from zonesched.outage_lines import OutageLines
from zonesched.service_group.contract import GroupUnavailable, NoGroup, ServiceGroup

log = logging.getLogger(__name__)

UNREGISTERED_PAUSE_S = 0.5
NO_GROUP_PAUSE_S = 60.0


class Membership:
    """Beats twice within `heartbeat_s`; while that works the agent need not beat over HTTP.

    `open_group` takes the zone's uuid, which the zone returns at registration.
    """

    def __init__(self, agent: Agent, open_group: Callable[[str], ServiceGroup], heartbeat_s: float) -> None:
        self._agent = agent
        self._open_group = open_group
        self._pause_s = heartbeat_s / 2
        self._zone_uuid = ""
        self._is_stuck = False
        self._group: ServiceGroup = NoGroup()
        self._lines = OutageLines(log, "the service group", "sending heartbeats to the zone itself")

    def step(self) -> float:
        """Send a heartbeat; return the seconds until the next one."""
        uuid = self._agent.zone.uuid
        is_stuck = self._agent.is_stuck
        if is_stuck and not self._is_stuck:
            log.error("the agent hangs: its driver, the file system of its state folder or its zone")
        self._is_stuck = is_stuck
        if not uuid or is_stuck or self._agent.has_lapsed:
            # Once its instances have ended, its zone may place them anew: only its calls make it alive again.
            # While it hangs it builds nothing.
            # It leaves, since ZooKeeper keeps a member that is silent as long as its connection is there.
            self.close()
            return UNREGISTERED_PAUSE_S
        if uuid != self._zone_uuid:
            self.close()
            self._group, self._zone_uuid = self._open_group(uuid), uuid
        if not self._group.is_there:
            return NO_GROUP_PAUSE_S
        try:
            self._group.beat()
        except GroupUnavailable as error:
            self._lines.away(error)
        else:
            self._lines.back()
            self._agent.note_heartbeat()
        return self._pause_s

    def close(self) -> None:
        """Leave the group."""
        self._group.close()
