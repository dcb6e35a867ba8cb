"""Availability zones of local hosts and of child zones."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from zonesched.model.arrays import Bools
from zonesched.model.host_table import HostTable
from zonesched.model.views import Binary, ServiceView, ZoneHosts
from zonesched.services.hosts import services
from zonesched.services.zone import Zone
from zonesched.zones.child import Ready


def names(zone: Zone) -> list[ZoneHosts]:
    """List all availability zones that a boot may name, by name, without their hosts."""
    with zone.hosts.current() as table:
        here = _names(table, table.alive)
        taking = _names(table, table.alive & table.enabled)
    for known in zone.children.snapshot():
        if isinstance(known.status, Ready):
            # Children report names only: an availability zone there counts as available.
            here |= known.status.info.availability_zones
            taking |= known.status.info.availability_zones
    return [ZoneHosts(name, name in taking) for name in sorted(here)]


def with_hosts(zone: Zone) -> list[ZoneHosts]:
    """List all availability zones as `names` does, each with its local hosts."""
    hosts: defaultdict[str, list[ServiceView]] = defaultdict(list)
    for service in services.list_services(zone, binary=Binary.HOST.value):
        hosts[service.availability_zone].append(service)
    return [ZoneHosts(found.name, found.takes, tuple(hosts[found.name])) for found in names(zone)]


def _names(table: HostTable, which: Bools) -> frozenset[str]:
    rows = np.flatnonzero(which)
    if len(rows) == 0:
        return frozenset()
    positions, _ = table.availability_zones.groups(rows)
    found = (table.availability_zones[int(rows[position])] for position in positions.tolist())
    return frozenset(name for name in found if name)
