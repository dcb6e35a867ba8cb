"""The resource tracker: compares the agent's usage ledger with the zone's claims at intervals."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from zonesched.compute.agent import Agent
from zonesched.compute.connection import ZoneCallError
from zonesched.compute.usage_ledger import HostClass, Statement, UsageLedger, compare, present, unreported

log = logging.getLogger(__name__)

UNREGISTERED_PAUSE_S = 0.5
COMPARE_S = 30.0


class Claims(Protocol):
    """Calls of the tracker to the zone; `zonesched.compute.client.AgentClient` makes them over HTTP."""

    def claims(self) -> Statement: ...

    def report_excesses(self, amounts: Mapping[HostClass, int]) -> None: ...


class Tracker:
    """Keeps the usage ledger of one agent, and reports each excess that lasts for two comparisons."""

    def __init__(self, agent: Agent, zone: Claims) -> None:
        self.ledger = UsageLedger()
        self._agent = agent
        self._zone = zone

    def step(self) -> float:
        """Compare once; return the seconds until the next comparison."""
        if not self._agent.zone.uuid:
            return UNREGISTERED_PAUSE_S
        try:
            statement = self._zone.claims()
            before, self.ledger = (
                self.ledger,
                compare(self.ledger, present(self._agent.state.instances), statement),
            )
            _log_changes(before, self.ledger)
            amounts = unreported(self.ledger, statement)
            if amounts:
                self._zone.report_excesses(amounts)
        except ZoneCallError as error:
            # The agent logs that its zone is unavailable; the next comparison makes up for this one.
            log.info("the usage ledger was not compared: %s", error)
        return COMPARE_S


def _log_changes(before: UsageLedger, after: UsageLedger) -> None:
    known = {excess.place: excess.amount for excess in before.excesses}
    for found in after.excesses:
        if known.pop(found.place, 0) != found.amount:
            log.warning(
                "usage ledger differs: host=%s resource_class=%s counted=%d claimed=%d; the claims stand",
                *found.place,
                found.counted,
                found.claimed,
            )
    for host, resource_class in sorted(known):
        log.warning("usage ledger agrees again: host=%s resource_class=%s", host, resource_class)
