"""The steps of the demo, a method each; everything is done as any user of a zone could do it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zonesched.compute.connection import ZoneCallError, ZoneConnection
from zonesched.compute.credentials import Credentials, read_credentials, write_credentials
from zonesched.demo.processes import Processes
from zonesched.demo.tree import DemoZone, config_text, inventory
from zonesched.demo.waiting import Waiter
from zonesched.seams import Clock

START_S = 60.0
READY_S = 60.0
BOOT_S = 120.0
NAMED = 2
"""Zones that a progress line names; it counts the others."""

FLAVOR = {"name": "demo.small", "vcpus": 2, "ram": 4096, "disk": 20}
KEY_BYTES = 32


class DemoRun:
    """One demo: its zones in `folder`, its processes, and a connection to each zone as admin."""

    def __init__(
        self, zones: Sequence[DemoZone], folder: Path, clock: Clock, processes: Processes, waiter: Waiter
    ) -> None:
        self.zones = zones
        self._folder = folder
        self._clock = clock
        self._processes = processes
        self._waiter = waiter
        self._admins: dict[str, ZoneConnection] = {}

    @property
    def root(self) -> DemoZone:
        """Return the root, the zone that users call."""
        return self.zones[0]

    def admin_file(self, zone: DemoZone) -> Path:
        """Path of the credentials file of a zone's admin."""
        return self._folder / zone.name / "admin.credentials"

    def admin(self, zone: DemoZone) -> ZoneConnection:
        """Connection to a zone as its admin."""
        if zone.name not in self._admins:
            who = read_credentials(self.admin_file(zone))
            self._admins[zone.name] = ZoneConnection(who.url, who.username, who.password)
        return self._admins[zone.name]

    def start_zones(self) -> None:
        """Write each zone's configuration and start it; wait until all answer."""
        for zone in self.zones:
            home = self._folder / zone.name
            home.mkdir(mode=0o700)
            config = home / "zone.conf"
            config.touch(mode=0o600)
            config.write_text(config_text(zone, str(home), self._new_key), encoding="utf-8")
            self._processes.start(
                f"zone {zone.name}",
                "zonesched.serving",
                ["--config-file", str(config)],
                home / "zone.log",
            )
        self._waiter.until("starting zones", lambda: self._missing(self._answers), START_S)

    def start_agents(self) -> None:
        """Start an agent in each zone that has hosts, as a user of its own."""
        for zone in self.zones:
            if not zone.host_count:
                continue
            home = self._folder / zone.name
            made = self.admin(zone).call("POST", "/users", {"user": {"name": "agent", "role": "compute"}})
            credentials = home / "agent.credentials"
            write_credentials(credentials, Credentials(zone.url, "agent", made["user"]["secret"]))
            arguments = {
                "--credentials": str(credentials),
                "--inventory": str(write_inventory(zone, home)),
                "--service": zone.name,
                "--poll-seconds": "0.25",
                "--heartbeat-seconds": "5",
                "--fake-build-seconds": "0.5",
            }
            flat = [part for pair in arguments.items() for part in pair]
            self._processes.start(f"agent of {zone.name}", "zonesched.compute.main", flat, home / "agent.log")

    def join(self) -> None:
        """Make a user for the parent in each child, and add the child to its parent through the API."""
        by_name = {zone.name: zone for zone in self.zones}
        for child in reversed(self.zones[1:]):
            user = {"name": f"parent-{child.parent}", "role": "parent"}
            made = self.admin(child).call("POST", "/users", {"user": user})
            form = {
                "name": child.name,
                "api_url": child.url,
                "username": user["name"],
                "password": made["user"]["secret"],
            }
            self.admin(by_name[child.parent]).call("POST", "/zones", {"zone": form})

    def wait_until_ready(self) -> None:
        """Wait until every host is up and every zone knows its whole subtree."""
        self._waiter.until("hosts coming up", lambda: self._missing(self._hosts_are_up), READY_S)
        self._waiter.until("zones polling children", lambda: self._missing(self._knows_subtree), READY_S)

    def boot(self, instances: int) -> Mapping[str, Any]:
        """Boot with one call at the root; return the reservation once it has ended."""
        root = self.admin(self.root)
        root.call("POST", "/flavors", {"flavor": FLAVOR})
        server = {"name": "demo", "flavorRef": FLAVOR["name"], "num_instances": instances}
        id = root.call("POST", "/zones/boot", {"server": server})["reservation_id"]
        self._waiter.until(
            f"booting {instances} instances", lambda: _still_building(self.reservation(id)), BOOT_S
        )
        return self.reservation(id)

    def reservation(self, id: str) -> Mapping[str, Any]:
        """Read the boot from the root."""
        found: Mapping[str, Any] = self.admin(self.root).call("GET", f"/reservations/{id}")["reservation"]
        return found

    def hypervisors(self, zone: DemoZone) -> Sequence[Mapping[str, Any]]:
        """Read the local hosts of a zone from its own API."""
        found: Sequence[Mapping[str, Any]] = self.admin(zone).call("GET", "/os-hypervisors/detail")[
            "hypervisors"
        ]
        return found

    def audits(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the inconsistencies that each zone's audit finds, by zone name."""
        return {zone.name: self.admin(zone).call("GET", "/audit")["inconsistencies"] for zone in self.zones}

    def _new_key(self) -> str:
        return self._clock.random_bytes(KEY_BYTES).hex()

    def _missing(self, holds: Callable[[DemoZone], bool]) -> str:
        return waiting_for([zone.name for zone in self.zones if not holds(zone)])

    def _answers(self, zone: DemoZone) -> bool:
        return is_ready(zone.url, self.admin_file(zone))

    def _hosts_are_up(self, zone: DemoZone) -> bool:
        up = [host for host in self.hypervisors(zone) if host["state"] == "up"]
        return len(up) == zone.host_count

    def _knows_subtree(self, zone: DemoZone) -> bool:
        info = self.admin(zone).call("GET", "/zones/info")
        return bool(info["zone"]["complete"])


def is_ready(url: str, admin_file: Path) -> bool:
    """Return whether a zone that was just started serves; one that is still starting is no error."""
    if not admin_file.is_file():
        return False
    try:
        ZoneConnection(url, "", "").call("GET", "/readiness")
    except ZoneCallError:
        return False
    return True


def write_inventory(zone: DemoZone, home: Path) -> Path:
    """Write the inventory file of a zone's agent into `home`; return its path."""
    path = home / "hosts.json"
    path.write_text(json.dumps(inventory(zone), indent=1), encoding="utf-8")
    return path


def waiting_for(names: Sequence[str]) -> str:
    """Say which zones are missing, in a few words; "" for none."""
    if not names:
        return ""
    rest = len(names) - NAMED
    return "waiting for " + ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _still_building(found: Mapping[str, Any]) -> str:
    if found["state"] != "BUILD":
        return ""
    return ", ".join(f"{count} {status}" for status, count in sorted(found["counts"].items()))
