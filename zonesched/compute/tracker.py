"""The resource tracker: it looks now and then whether the agent's account is what the zone has claimed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from zonesched.compute.agent import Agent
from zonesched.compute.connection import ZoneCallError
from zonesched.compute.usage_ledger import Place, Statement, UsageLedger, look, present, unreported

log = logging.getLogger(__name__)

UNREGISTERED_PAUSE_S = 0.5
LOOK_S = 30.0


class Claims(Protocol):
    """Calls of the tracker to the zone; `zonesched.compute.client.AgentClient` makes them over HTTP."""

    def claims(self) -> Statement: ...

    def report_excesses(self, amounts: Mapping[Place, int]) -> None: ...


class Tracker:
    """Keeps the account of one agent, and reports what differs for longer than one look."""

    def __init__(self, agent: Agent, zone: Claims) -> None:
        self.account = UsageLedger()
        self._agent = agent
        self._zone = zone

    def step(self) -> float:
        """Look once; the seconds until the next time."""
        if not self._agent.zone.uuid:
            return UNREGISTERED_PAUSE_S
        try:
            told = self._zone.claims()
            before, self.account = (
                self.account,
                look(self.account, present(self._agent.state.instances), told),
            )
            _say(before, self.account)
            amounts = unreported(self.account, told)
            if amounts:
                self._zone.report_excesses(amounts)
        except ZoneCallError as error:
            # The agent itself says when its zone is away; what was not told now is told at the next look.
            log.info("the account was not compared: %s", error)
        return LOOK_S


def _say(before: UsageLedger, after: UsageLedger) -> None:
    known = {excess.place: excess.amount for excess in before.excesses}
    for found in after.excesses:
        if known.pop(found.place, 0) != found.amount:
            log.warning(
                "account differs: host=%s resource_class=%s counted=%d claimed=%d; the claims count",
                *found.place,
                found.counted,
                found.claimed,
            )
    for host, resource_class in sorted(known):
        log.warning("account agrees again: host=%s resource_class=%s", host, resource_class)
