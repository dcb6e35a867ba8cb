"""Answers to parents: in time, however slow the zones below are (P6), and without names from below (P4)."""

from __future__ import annotations

import math
import re

import requests

from tests.simulation.network import Exchange
from tests.simulation.stage import Stage
from zonesched.zones.client import BUDGET_HEADER

LATE_S = 0.2
"""Seconds after the end of a time budget that an answer may take to be written."""

IN_SPEC = re.compile(rb'"time_budget_s":([0-9.]+)')
HOST = re.compile(rb"(?<![\w-])z\d+-h\d+(?![\w-])")
"""Names of hosts in all zones of a simulation. A sealed offer may have the same characters within it."""


class Answers:
    """Listens to what zones answer to their parents; `wrong`: what they should not have said, or too late."""

    def __init__(self, stage: Stage) -> None:
        self.wrong: list[str] = []
        self._stage = stage
        stage.network.listeners.append(self._listen)

    def _listen(self, exchange: Exchange, response: requests.Response) -> None:
        if exchange.source not in self._stage.network.servers:
            return
        zone, what = exchange.target, f"{exchange.request.method} {exchange.request.path_url}"
        body = response.raw.read()
        response.raw.seek(0)
        if found := HOST.search(body):
            self.wrong.append(f"P4 {zone}: the answer to {what} names {found[0].decode()}")
        took_s, budget_s = self._stage.baton.now - exchange.arrived_at, _budget_s(exchange.request)
        is_calm = self._stage.troubled_until.get(zone, 0.0) < exchange.arrived_at
        if is_calm and took_s > budget_s + LATE_S:
            self.wrong.append(f"P6 {zone}: {what} took {took_s:.1f} s of {budget_s:.1f} s")


def _budget_s(request: requests.PreparedRequest) -> float:
    """Return how long a caller waits, where it says so."""
    if given := request.headers.get(BUDGET_HEADER):
        return float(given)
    body = request.body or b""
    found = IN_SPEC.search(body.encode() if isinstance(body, str) else body)
    return float(found[1]) if found and str(request.path_url).endswith("/select") else math.inf
