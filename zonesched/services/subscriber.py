"""What a process does when it hears a hint: what it would have done anyway, now."""

from __future__ import annotations

import logging

from zonesched.broker.contract import BrokerUnavailable, Kind
from zonesched.services.zone import Zone

log = logging.getLogger(__name__)

LISTEN_S = 1.0
"""Longest wait for hints in one step, so that a process which is to stop does."""

AWAY_PAUSE_S = 2.0


class Subscriber:
    """One process that listens to its zone's broker."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._is_away = False

    def step(self) -> float:
        """Hear what there is, and look; the pause until the next time."""
        zone = self._zone
        try:
            heard = zone.notifications.broker.receive(LISTEN_S)
        except BrokerUnavailable as error:
            if not self._is_away:
                log.warning("no hints are heard, the message broker is away: %s", error)
            self._is_away = True
            return AWAY_PAUSE_S
        self._is_away = False
        kinds = set(heard)
        zone.notifications.counts.heard += sum(kind is not Kind.MISSED for kind in heard)
        if kinds & {Kind.BOOTS, Kind.MISSED}:
            zone.look_for_boots()
        if kinds & {Kind.HOSTS, Kind.MISSED}:
            zone.hosts.read_again()
        return 0.0
