"""Hints that an agent hears from its zone's broker: there is work, look now."""

from __future__ import annotations

import logging
from collections.abc import Callable

from zonesched.broker.contract import Broker, BrokerUnavailable, NoBroker
from zonesched.compute.agent import Agent

log = logging.getLogger(__name__)

LISTEN_S = 1.0
"""Longest wait for hints in one step, so that an agent which is to stop does."""

AWAY_PAUSE_S = 2.0
UNREGISTERED_PAUSE_S = 0.5
NO_BROKER_PAUSE_S = 60.0


class Subscriber:
    """Lets an agent look when it is told to; `open_broker` takes the zone's name, `wake` ends its pause."""

    def __init__(self, agent: Agent, open_broker: Callable[[str], Broker], wake: Callable[[], None]) -> None:
        self._agent = agent
        self._open_broker = open_broker
        self._wake = wake
        self._zone_name = ""
        self._broker: Broker = NoBroker()
        self._is_away = False

    def step(self) -> float:
        """Hear what there is; the pause until the next time."""
        # The zone says at registration what it is called, and so what its exchange is called.
        name = self._agent.zone.name
        if not name:
            return UNREGISTERED_PAUSE_S
        if name != self._zone_name:
            self.close()
            self._broker, self._zone_name = self._open_broker(name), name
        if not self._broker.is_there:
            return NO_BROKER_PAUSE_S
        try:
            heard = self._broker.receive(LISTEN_S)
        except BrokerUnavailable as error:
            if not self._is_away:
                log.warning("no hints are heard, the message broker is away: %s", error)
            self._is_away = True
            return AWAY_PAUSE_S
        self._is_away = False
        if heard:
            self._agent.look()
            self._wake()
        return 0.0

    def close(self) -> None:
        """Give the connection back."""
        self._broker.close()
