"""Effective inventories of hosts: the agent's report, the operator's settings, the aggregates.

Only this module writes `capacity`, `reserved` and `allocation_ratio` of known inventories. Whoever changes
one of the three sources locks the hosts first, so that concurrent changes do not overwrite each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.aggregate_ratios import aggregate_ratios
from zonesched.model.capacity import NOTHING_SET, Inventory, InventorySetting, effective
from zonesched.model.host_totals import ClassTotals
from zonesched.store import claims
from zonesched.store import tables as t

_inventory, _setting, _member = t.inventories.c, t.inventory_settings.c, t.aggregate_hosts.c
Settings = Mapping[str, Mapping[str, InventorySetting]]
"""Operators' settings, by host id and resource class."""


@dataclass(frozen=True)
class Stored:
    """Inventory as stored, and `rightful`: the inventory that its sources yield."""

    host_id: str
    resource_class: str
    reported: Inventory
    setting: InventorySetting
    stored: Inventory
    stored_capacity: int
    rightful: Inventory
    used: int
    shrunk_used: int
    agent_excess: int

    @property
    def differs(self) -> bool:
        return self.stored != self.rightful or self.stored_capacity != self.rightful.capacity


def recompute(tx: Connection, host_ids: Sequence[str]) -> None:
    """Write the effective inventories of these hosts from their sources; leaves the hosts' change numbers.

    The caller has locked the hosts.
    """
    for some in claims.chunks(sorted(host_ids)):
        found = read(tx, some)
        _write(tx, [row for row in found if row.differs or row.used < row.shrunk_used])


def read(tx: Connection, host_ids: Sequence[str]) -> list[Stored]:
    """Read the inventories of at most `claims.CHUNK` hosts, in order of host and class."""
    statement = (
        sa.select(t.inventories)
        .where(_inventory.host_id.in_(host_ids))
        .order_by(_inventory.host_id, _inventory.resource_class)
    )
    return list(_compare(tx.execute(statement), settings(tx, host_ids), _ratios(tx, host_ids)))


def read_all(tx: Connection) -> Iterator[Stored]:
    """Read the inventories of all hosts, in order of host and class."""
    yield from _compare(tx.execute(sa.select(t.inventories)), settings(tx), _ratios(tx))


def totals(tx: Connection) -> Mapping[str, ClassTotals]:
    """Sum up the inventories of all hosts by resource class, as they are stored."""
    amounts = [sa.func.sum(column) for column in (_inventory.total, _inventory.capacity, _inventory.used)]
    rows = tx.execute(sa.select(_inventory.resource_class, *amounts).group_by(_inventory.resource_class))
    return {name: ClassTotals(*map(int, found)) for name, *found in rows}


def settings(tx: Connection, host_ids: Sequence[str] | None = None) -> Settings:
    """Read the operators' settings of at most `claims.CHUNK` hosts, or of all."""
    found: defaultdict[str, dict[str, InventorySetting]] = defaultdict(dict)
    statement = _of(sa.select(t.inventory_settings), _setting.host_id, host_ids)
    for row in tx.execute(statement):
        found[row.host_id][row.resource_class] = InventorySetting(row.reserved, row.allocation_ratio)
    return found


def _ratios(tx: Connection, host_ids: Sequence[str] | None = None) -> Mapping[str, Mapping[str, float]]:
    """Read the aggregates' allocation ratios, by host id and resource class."""
    said = {row.id: orjson.loads(row.metadata) for row in tx.execute(sa.select(t.aggregates))}
    if not said:
        return {}
    found: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in tx.execute(_of(sa.select(t.aggregate_hosts), _member.host_id, host_ids)):
        found[row.host_id].append(said[row.aggregate_id])
    return {host_id: aggregate_ratios(metadata) for host_id, metadata in found.items()}


def _of(statement: sa.Select[Any], column: Any, host_ids: Sequence[str] | None) -> sa.Select[Any]:
    return statement if host_ids is None else statement.where(column.in_(host_ids))


def _compare(
    rows: Iterable[Any], set_: Settings, ratios: Mapping[str, Mapping[str, float]]
) -> Iterator[Stored]:
    for row in rows:
        name, units = row.resource_class, (row.min_unit, row.max_unit, row.step_size)
        reported = Inventory(row.total, row.reported_reserved, row.reported_ratio, *units)
        setting = set_.get(row.host_id, {}).get(name, NOTHING_SET)
        yield Stored(
            host_id=row.host_id,
            resource_class=name,
            reported=reported,
            setting=setting,
            stored=Inventory(row.total, row.reserved, row.allocation_ratio, *units),
            stored_capacity=row.capacity,
            rightful=effective(reported, setting, ratios.get(row.host_id, {}).get(name)),
            used=row.used,
            shrunk_used=row.shrunk_used,
            agent_excess=row.agent_excess,
        )


def _write(tx: Connection, rows: Sequence[Stored]) -> None:
    if not rows:
        return
    capacity = sa.bindparam("b_capacity", type_=sa.BigInteger)
    # Claims up to this amount were legal before this change.
    rightful = sa.case(
        (_inventory.shrunk_used > _inventory.capacity, _inventory.shrunk_used), else_=_inventory.capacity
    )
    shrunk_used = sa.case(
        (_inventory.used <= capacity, 0), (_inventory.used < rightful, _inventory.used), else_=rightful
    )
    update = (
        sa.update(t.inventories)
        .where(_inventory.host_id == sa.bindparam("b_host"))
        .where(_inventory.resource_class == sa.bindparam("b_class"))
        .values(
            reserved=sa.bindparam("b_reserved"),
            allocation_ratio=sa.bindparam("b_ratio"),
            capacity=capacity,
            shrunk_used=shrunk_used,
        )
    )
    tx.execute(
        update,
        [
            {
                "b_host": row.host_id,
                "b_class": row.resource_class,
                "b_reserved": row.rightful.reserved,
                "b_ratio": row.rightful.allocation_ratio,
                "b_capacity": row.rightful.capacity,
            }
            for row in rows
        ],
    )
