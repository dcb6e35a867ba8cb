"""Uses of hosts, read in columns: claims, counts of living instances, failed builds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.arrays import Ints
from zonesched.model.counts import Counts
from zonesched.model.host_row import flavor_key
from zonesched.model.host_uses import NO_USES, HostUses
from zonesched.model.placement import CLAIMING, InstanceStatus, PlacementState
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in

_HOST, _INVENTORY = t.hosts.c, t.inventories.c


def owner_key(caller_id: str, project_id: str) -> str:
    """Make the key of an instance's owner: its sender (a parent's user, or this zone) and project."""
    return f"{caller_id}:{project_id}"


def group_key(caller_id: str, group_id: str) -> str:
    """Make the key of a server group: its sender (a parent's user, or this zone) and id."""
    return f"{caller_id}:{group_id}"


class UsesOf:
    """Query of the uses of the hosts that meet `which`, a condition on `hosts`; compiled once."""

    def __init__(self, which: sa.ColumnElement[bool]) -> None:
        some_hosts = sa.select(_HOST.id).where(which)
        self._hosts = Prepared(sa.select(_HOST.id, _HOST.failed_builds).where(which))
        self._living = Prepared(_living(some_hosts))
        self._used = Prepared(
            sa.select(_INVENTORY.host_id, _INVENTORY.resource_class, _INVENTORY.used)
            .where(_INVENTORY.host_id.in_(some_hosts))
            .where(_INVENTORY.used > 0)
        )

    def read(self, tx: Connection, **values: Any) -> HostUses:
        """Read the uses now; `values` are the parameters of the condition."""
        hosts = self._hosts.all(tx, **values)
        if not hosts:
            return NO_USES
        position_of = {host_id: position for position, (host_id, _) in enumerate(hosts)}
        living = self._living.all(tx, **values)
        positions = [position_of[one.host_id] for one in living]
        grouped = [n for n, one in enumerate(living) if one.group_id]
        building = [n for n, one in enumerate(living) if _is_built_there(one.status, one.state)]
        return HostUses(
            ids=list(position_of),
            used=_by_class(self._used.all(tx, **values), position_of),
            owners=Counts.counted(positions, [owner_key(one.caller_id, one.project_id) for one in living]),
            flavors=Counts.counted(positions, [flavor_key(one.caller_id, one.flavor_id) for one in living]),
            images=Counts.counted(positions, [one.image_key for one in living]),
            groups=Counts.counted(
                [positions[n] for n in grouped],
                [group_key(living[n].caller_id, living[n].group_id) for n in grouped],
            ),
            num_building=np.bincount(
                np.array([positions[n] for n in building], dtype=np.int64), minlength=len(hosts)
            ),
            failed_builds=np.array([failed for _, failed in hosts], dtype=np.int64),
        )


def _living(some_hosts: sa.Select[tuple[str]]) -> sa.Select[Any]:
    """Select living instances with their hosts and the columns by which they are counted.

    The query does not group: the database would sort wide rows, which costs more than counting them here.
    """
    placed, instance = t.placements.c, t.instances.c
    return (
        sa.select(
            placed.host_id,
            instance.caller_id,
            instance.project_id,
            instance.flavor_id,
            instance.image_key,
            instance.group_id,
            instance.status,
            placed.state,
        )
        .join(t.instances, instance.uuid == placed.uuid)
        .where(placed.host_id.in_(some_hosts))
        .where(is_in(placed.state, CLAIMING))
    )


def _is_built_there(status: str, state: str) -> bool:
    """Tell whether a host has still to build what it has: what it ends may be built elsewhere."""
    return status == InstanceStatus.BUILD.value and state != PlacementState.RELEASING.value


def _by_class(rows: Iterable[tuple[str, str, int]], position_of: Mapping[str, int]) -> Mapping[str, Ints]:
    used: dict[str, Ints] = {}
    for host_id, name, amount in rows:
        if name not in used:
            used[name] = np.zeros(len(position_of), dtype=np.int64)
        used[name][position_of[host_id]] = amount
    return used
