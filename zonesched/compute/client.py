"""The calls of an agent to its zone."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.compute.connection import ZoneAway, ZoneConnection
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Key, Report, Wanted

BATCH = 500
"""Hosts or reports in one call."""


class AgentClient:
    """One agent's calls, under the name of its service. All raise ZoneAway or ZoneRefused."""

    def __init__(self, connection: ZoneConnection, service: str) -> None:
        self._connection = connection
        self._service = service

    def register(self, hosts: Sequence[InventoryHost]) -> None:
        """Make these the hosts of the service, with the inventories they have now."""
        for at in range(0, len(hosts), BATCH):
            wire = [host.to_wire() for host in hosts[at : at + BATCH]]
            self._connection.call("PUT", "/hosts", {"service": self._service, "hosts": wire})

    def beat(self) -> None:
        """Say that the service is alive."""
        self._connection.call("POST", "/hosts/beat", {"service": self._service})

    def wanted(self) -> tuple[Wanted, ...]:
        """All that should run on the hosts of the service."""
        answer = self._connection.call("GET", "/hosts/instances", params={"service": self._service})
        try:
            return tuple(
                Wanted(
                    key=Key(str(item["uuid"]), int(item["attempt"])),
                    host=str(item["host"]),
                    flavor=item["flavor"],
                    image=item["image"],
                    is_active=item.get("status") == "ACTIVE",
                )
                for item in answer["instances"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ZoneAway(f"the answer of GET /hosts/instances cannot be read: {error!r}") from error

    def report(self, reports: Sequence[Report]) -> None:
        """Tell what became of at most BATCH instances."""
        lines = [
            {"uuid": r.key.uuid, "attempt": r.key.attempt, "state": r.state.value, "reason": r.reason}
            for r in reports
        ]
        self._connection.call("POST", "/hosts/reports", {"service": self._service, "reports": lines})
