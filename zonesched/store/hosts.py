"""Hosts as the host table in memory takes them: whole rows, read by what changed or page by page.

Whoever changes a host, its inventories or its placements takes a number from `counters` and notes it in
`hosts.changed_seq`, in the same transaction. The counter's row stays locked until that transaction ends, so
numbers become visible in their order, and a reader that has seen one has missed none below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.capacity import Inventory
from zonesched.model.host_row import HostFacts, HostRow
from zonesched.model.placement import CLAIMING
from zonesched.store import claims
from zonesched.store import tables as t

COLUMNS = t.hosts.c
_LAST_CHANGE = sa.select(sa.func.max(COLUMNS.changed_seq))


def owner_key(caller_id: str, project_id: str) -> str:
    """Whose instance it is: a parent's user, or this zone, and the project it named."""
    return f"{caller_id}:{project_id}"


def last_change(tx: Connection) -> int:
    """The highest number that any host's change bears; 0 without hosts."""
    return int(tx.execute(_LAST_CHANGE).scalar() or 0)


def changed_hosts(tx: Connection, since_seq: int) -> tuple[list[HostRow], int]:
    """The hosts that changed after `since_seq`, as they are now, and the number to ask from next."""
    newest = last_change(tx)
    if newest <= since_seq:
        return [], since_seq
    return _rows(tx, COLUMNS.changed_seq > since_seq), newest


def page(tx: Connection, after_id: str, limit: int) -> list[HostRow]:
    """The next `limit` hosts in order of id; fewer at the end."""
    ids = sa.select(COLUMNS.id).where(COLUMNS.id > after_id).order_by(COLUMNS.id).limit(limit).subquery()
    last = tx.execute(sa.select(sa.func.max(ids.c.id))).scalar()
    if last is None:
        return []
    return _rows(tx, sa.and_(COLUMNS.id > after_id, COLUMNS.id <= last))


def read_one(tx: Connection, host_id: str) -> HostRow | None:
    """One host by id."""
    return next(iter(_rows(tx, COLUMNS.id == host_id)), None)


def names(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, str]:
    """Names of hosts by id."""
    found: dict[str, str] = {}
    for some in claims.chunks(host_ids):
        rows = tx.execute(sa.select(COLUMNS.id, COLUMNS.name).where(COLUMNS.id.in_(some)))
        found |= {row.id: row.name for row in rows}
    return found


def _rows(tx: Connection, which: Any) -> list[HostRow]:
    facts = _facts(tx, which)
    if not facts:
        return []
    inventories, used = _inventories(tx, which)
    owners = _owners(tx, which)
    return [HostRow(f, inventories.get(f.id, {}), used.get(f.id, {}), owners.get(f.id, {})) for f in facts]


def _facts(tx: Connection, which: Any) -> list[HostFacts]:
    statement = sa.select(
        COLUMNS.id,
        COLUMNS.name,
        COLUMNS.address,
        COLUMNS.availability_zone,
        COLUMNS.service_id,
        COLUMNS.capabilities,
        COLUMNS.traits,
        COLUMNS.enabled,
    )
    # Most hosts say the same of themselves: each text is read once, and its value shared.
    capabilities: dict[str, Mapping[str, Any]] = {}
    traits: dict[str, frozenset[str]] = {}
    found = []
    for row in tx.execute(statement.where(which)):
        if row[5] not in capabilities:
            capabilities[row[5]] = orjson.loads(row[5])
        if row[6] not in traits:
            traits[row[6]] = frozenset(orjson.loads(row[6]))
        found.append(HostFacts(*row[:5], capabilities[row[5]], traits[row[6]], row[7]))
    # Sorted here: asked to, a planner may walk through all hosts in order to find a few.
    return sorted(found, key=lambda facts: facts.id)


def _inventories(
    tx: Connection, which: Any
) -> tuple[Mapping[str, Mapping[str, Inventory]], Mapping[str, Mapping[str, int]]]:
    column = t.inventories.c
    statement = sa.select(
        column.host_id,
        column.resource_class,
        column.used,
        column.total,
        column.reserved,
        column.allocation_ratio,
        column.min_unit,
        column.max_unit,
        column.step_size,
    )
    inventories: defaultdict[str, dict[str, Inventory]] = defaultdict(dict)
    used: defaultdict[str, dict[str, int]] = defaultdict(dict)
    alike: dict[tuple[Any, ...], Inventory] = {}
    # As a list of ids, since a planner that joins may read all inventories to find a few hosts.
    some_hosts = sa.select(COLUMNS.id).where(which)
    for host_id, name, amount, *form in tx.execute(statement.where(column.host_id.in_(some_hosts))):
        key = tuple(form)
        if key not in alike:
            alike[key] = Inventory(*form)
        inventories[host_id][name] = alike[key]
        used[host_id][name] = amount
    return inventories, used


def _owners(tx: Connection, which: Any) -> Mapping[str, Mapping[str, int]]:
    placed, instance = t.placements.c, t.instances.c
    statement = (
        sa.select(placed.host_id, instance.caller_id, instance.project_id, sa.func.count())
        .join(t.instances, instance.uuid == placed.uuid)
        .where(placed.host_id.in_(sa.select(COLUMNS.id).where(which)))
        .where(placed.state.in_(sorted(state.value for state in CLAIMING)))
        .group_by(placed.host_id, instance.caller_id, instance.project_id)
    )
    owners: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for host_id, caller_id, project_id, count in tx.execute(statement):
        owners[host_id][owner_key(caller_id, project_id)] = count
    return owners
