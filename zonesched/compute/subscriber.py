"""Subscription of an agent to the wake-ups that its zone sends through the broker."""

from __future__ import annotations

import logging
from collections.abc import Callable

from zonesched.broker.contract import Broker, BrokerUnavailable, NoBroker
from zonesched.compute.agent import Agent
from zonesched.outage_lines import OutageLines

log = logging.getLogger(__name__)

LISTEN_S = 1.0
"""Longest wait for wake-ups in one step: an agent stops within it."""

UNAVAILABLE_PAUSE_S = 2.0
UNREGISTERED_PAUSE_S = 0.5
NO_BROKER_PAUSE_S = 60.0


class Subscriber:
    """Wakes an agent upon notifications; `open_broker` takes the zone's name, `wake` ends its pause."""

    def __init__(
        self, agent: Agent, open_broker: Callable[[str], Broker], wake: Callable[[], object]
    ) -> None:
        self._agent = agent
        self._open_broker = open_broker
        self._wake = wake
        self._zone_name = ""
        self._broker: Broker = NoBroker()
        self._lines = OutageLines(log, "the message broker", "polling without wake-ups")

    def step(self) -> float:
        """Receive notifications; return the seconds until the next step."""
        # The name of the zone, and so of its exchange, is known from the registration on.
        name = self._agent.zone.name
        if not name:
            # One that was refused since would take every second message of the agent that has its queue now.
            self.close()
            return UNREGISTERED_PAUSE_S
        if name != self._zone_name:
            self.close()
            self._broker, self._zone_name = self._open_broker(name), name
        if not self._broker.is_there:
            return NO_BROKER_PAUSE_S
        try:
            heard = self._broker.receive(LISTEN_S)
        except BrokerUnavailable as error:
            self._lines.away(error)
            return UNAVAILABLE_PAUSE_S
        self._lines.back()
        if heard:
            self._agent.wake()
            self._wake()
        return 0.0

    def close(self) -> None:
        """Close the connection."""
        self._broker.close()
