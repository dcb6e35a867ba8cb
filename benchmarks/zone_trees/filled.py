"""A large zone: hosts without agents, and servers on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .client import ZoneClient
from .tree import SERVICE

AT_ONCE = 500
"""Hosts that one call registers."""

BOOTED_AT_ONCE = 1000
FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}


def register(agent: ZoneClient, count: int) -> None:
    """Register hosts in eight availability zones."""
    for first in range(0, count, AT_ONCE):
        hosts = [
            {
                "name": f"host-{number:06}",
                "availability_zone": f"az{number % 8}",
                "inventories": {
                    "VCPU": {"total": 512},
                    "MEMORY_MB": {"total": 262_144},
                    "DISK_GB": {"total": 4_000},
                },
            }
            for number in range(first, min(count, first + AT_ONCE))
        ]
        agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": hosts})


def fill(admin: ZoneClient, tenant: ZoneClient, count: int, say: Callable[[str], None]) -> Mapping[str, str]:
    """Boot so many servers; return the ids of the last reservation, of one of its servers and of its host."""
    reservation = server = ""
    for first in range(0, count, BOOTED_AT_ONCE):
        body = {"name": "vm", "flavorRef": "small", "num_instances": min(BOOTED_AT_ONCE, count - first)}
        reservation = tenant.call("POST", "/zones/boot", {"server": body})["reservation_id"]
        if first % (10 * BOOTED_AT_ONCE) == 0:
            say(f"{first} of {count} servers are accepted")
        server = _placed(tenant, reservation)[0]["uuid"]
    shown = admin.call("GET", f"/servers/{server}")["server"]
    hosts = admin.call("GET", "/os-hypervisors")["hypervisors"]
    name = shown["OS-EXT-SRV-ATTR:hypervisor_hostname"]
    host = next(str(one["id"]) for one in hosts if one["hypervisor_hostname"] == name)
    return {"reservation": reservation, "server": server, "host": host}


def _placed(tenant: ZoneClient, reservation: str) -> Sequence[Mapping[str, Any]]:
    """Wait until all instances of a boot have their places; return them."""
    while True:
        found = tenant.call("GET", f"/reservations/{reservation}")["reservation"]
        # Without agents what has its place waits to be built.
        if all(waiting["code"] == "build" for waiting in found["waiting_for"]):
            instances: Sequence[Mapping[str, Any]] = found["instances"]
            return instances
        time.sleep(0.02)
