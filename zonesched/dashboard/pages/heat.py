"""The hosts of this zone as numbers: sums by resource class, and one byte per host for the heat map.

A heat map of 100,000 hosts is two answers: the layout (names and groups), when it changes, and the bytes,
when the page looks again. Both are for who may list the hosts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from zonesched.dashboard.visit import Data, Redirect, Visit
from zonesched.errors import BadRequest, NotFound
from zonesched.model.arrays import Ints
from zonesched.model.host_table import HostTable

DOWN, DISABLED, WITHOUT = 255, 254, 253
"""Bytes of hosts that are down, that are disabled, and that do not have the class; others are 0 to 200."""

FULL = 200
NO_GROUP = "(none)"


@dataclass(frozen=True)
class ClassSum:
    """One resource class over all hosts."""

    name: str
    used: float
    capacity: float

    @property
    def percent(self) -> float:
        return 100 * self.used / self.capacity if self.capacity else 0.0


@dataclass(frozen=True)
class HostSums:
    """All hosts of a zone together."""

    hosts: int
    down: int
    disabled: int
    instances: int
    classes: Sequence[ClassSum]


def sums(visit: Visit) -> HostSums:
    """Add up the hosts. Raises Forbidden for who may not list them."""
    _check(visit)
    with visit.zone.hosts.current() as table:
        rows = _rows(table)
        return HostSums(
            hosts=len(rows),
            down=int(np.count_nonzero(~table.up[rows])),
            disabled=int(np.count_nonzero(~table.enabled[rows])),
            instances=int(table.num_instances[rows].sum()),
            classes=[
                ClassSum(name, float(table.used(name)[rows].sum()), float(table.capacity(name)[rows].sum()))
                for name in table.resource_classes
            ],
        )


def classes(visit: Visit) -> list[str]:
    """Return the resource classes that hosts have. Raises Forbidden."""
    _check(visit)
    with visit.zone.hosts.current() as table:
        return list(table.resource_classes)


def layout(visit: Visit) -> Data:
    """Return the names of the hosts in the order of the bytes, and the positions of each group's hosts.

    A host is in each of its aggregates.
    """
    _check(visit)
    by_zone = visit.query.get("group", "az") == "az"
    with visit.zone.hosts.current() as table:
        rows = _rows(table)
        names = [table.name(row) for row in rows.tolist()]
        groups = [_groups(table, row, by_zone) for row in rows.tolist()]
        tag = _tag(table, rows)
    members: dict[str, list[int]] = {}
    for position, some in enumerate(groups):
        for name in some or [NO_GROUP]:
            members.setdefault(name, []).append(position)
    for positions in members.values():
        positions.sort(key=names.__getitem__)
    content = {"layout": tag, "names": names, "groups": dict(sorted(members.items()))}
    return Data(orjson.dumps(content), "application/json")


def values(visit: Visit) -> Data:
    """Return 16 characters that name the layout, then one byte per host: its use of the class `class`."""
    _check(visit)
    name = visit.query.get("class", "")
    with visit.zone.hosts.current() as table:
        if name not in table.resource_classes:
            raise BadRequest("class: no host has such a resource class.", field="class")
        rows = _rows(table)
        content = _tag(table, rows).encode() + _levels(table, rows, name)
    return Data(content, "application/octet-stream")


def named(visit: Visit) -> Redirect:
    """Lead to the host of a name. Raises NotFound."""
    _check(visit)
    with visit.zone.hosts.current() as table:
        found = table.host_ids(table.rows_named([visit.query.get("name", "")]))
    if not found:
        raise NotFound("There is no such host.", code="host_not_found", field="name")
    return Redirect(f"/dashboard/hosts/{found[0]}")


def _check(visit: Visit) -> None:
    """Ask for one host: who may not is refused by the API itself."""
    visit.read("/os-hypervisors", limit="1")


def _rows(table: HostTable) -> Ints:
    return np.flatnonzero(table.alive[: table.size]).astype(np.int64)


def _groups(table: HostTable, row: int, by_zone: bool) -> list[str]:
    names = [table.availability_zones[row]] if by_zone else [one.name for one in table.aggregate_sets[row]]
    return [name for name in names if name]


def _tag(table: HostTable, rows: Ints) -> str:
    """Return 16 hex digits that change with the hosts and their order."""
    return hashlib.blake2b(table.host_hash[rows].tobytes(), digest_size=8).hexdigest()


def _levels(table: HostTable, rows: Ints, name: str) -> bytes:
    used, capacity = table.used(name)[rows], table.capacity(name)[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(capacity > 0, used / capacity, 0.0)
    levels = np.clip(np.round(shares * FULL), 0, FULL).astype(np.uint8)
    levels[capacity <= 0] = WITHOUT
    levels[~table.enabled[rows]] = DISABLED
    levels[~table.up[rows]] = DOWN
    return levels.tobytes()
