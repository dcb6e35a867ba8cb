"""The subscriber: a notification from the broker makes this process poll now instead of later."""

from __future__ import annotations

import logging

from zonesched.broker.contract import BrokerUnavailable, Kind
from zonesched.outage_lines import OutageLines
from zonesched.services.zone import Zone

log = logging.getLogger(__name__)

LISTEN_S = 1.0
"""Longest wait for notifications in one step, so that a process that has to stop does so."""

UNAVAILABLE_PAUSE_S = 2.0


class Subscriber:
    """One process of a zone that receives the notifications of the zone's broker."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._lines = OutageLines(log, "the message broker", "no notifications are received")

    def step(self) -> float:
        """Receive notifications and act on them; return the pause until the next time."""
        zone = self._zone
        try:
            heard = zone.notifications.broker.receive(LISTEN_S)
        except BrokerUnavailable as error:
            self._lines.away(error)
            return UNAVAILABLE_PAUSE_S
        self._lines.back()
        kinds = set(heard)
        zone.notifications.counts.heard += sum(kind is not Kind.MISSED for kind in heard)
        if kinds & {Kind.BOOTS, Kind.MISSED}:
            zone.wake.boots_here()
        if kinds & {Kind.HOSTS, Kind.MISSED}:
            zone.hosts.read_again()
        return 0.0
