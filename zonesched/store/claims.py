"""Taking and giving back resources of own hosts: the only writer of `inventories.used`.

Hosts are always taken in order of their id, so that two batches cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t

T = TypeVar("T")
CHUNK = 500


def chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """The items in runs of at most `size`, which keeps IN lists within every database's limit."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def claim(
    tx: Connection, change: int, copies_by_host: Mapping[str, int], resources: Mapping[str, int]
) -> Mapping[str, int]:
    """How many of the wanted copies each host took (0 where it has no room); `resources` is what one takes.

    The rows are read under lock, so the conditional update cannot fail any more; that it is conditional all
    the same is what keeps a host from ever being over-committed. Raises RuntimeError if it does fail.
    """
    wanted = {host: copies for host, copies in sorted(copies_by_host.items()) if copies > 0}
    room = _room(tx, list(wanted), resources)
    taken = {host: min(copies, room.get(host, 0)) for host, copies in wanted.items()}
    rows = [
        {"host": host, "class": name, "amount": amount * copies}
        for host, copies in taken.items()
        if copies
        for name, amount in resources.items()
    ]
    if rows:
        inventory = t.inventories.c
        amount = sa.bindparam("amount", type_=sa.Integer)
        statement = (
            sa.update(t.inventories)
            .where(inventory.host_id == sa.bindparam("host"))
            .where(inventory.resource_class == sa.bindparam("class"))
            .where(inventory.used + amount <= inventory.capacity)
            .values(used=inventory.used + amount)
        )
        if tx.execute(statement, rows).rowcount != len(rows):
            raise RuntimeError("a claim met a host that had changed under its lock")
        touch_uses(tx, change, [host for host, copies in taken.items() if copies])
    return taken


def release(tx: Connection, change: int, claims: Iterable[tuple[str, Mapping[str, int]]]) -> None:
    """Give back what each (host id, resources) had taken."""
    amounts: Counter[tuple[str, str]] = Counter()
    for host, resources in claims:
        for name, amount in resources.items():
            amounts[host, name] += amount
    rows = [{"host": host, "class": name, "amount": n} for (host, name), n in sorted(amounts.items())]
    if not rows:
        return
    inventory = t.inventories.c
    statement = (
        sa.update(t.inventories)
        .where(inventory.host_id == sa.bindparam("host"))
        .where(inventory.resource_class == sa.bindparam("class"))
        .values(used=inventory.used - sa.bindparam("amount", type_=sa.Integer))
    )
    tx.execute(statement, rows)
    touch_uses(tx, change, sorted({host for host, _ in amounts}))


def touch_hosts(tx: Connection, change: int, host_ids: Sequence[str]) -> None:
    """Mark hosts as changed, so that tables in memory read them again."""
    for ids in chunks(host_ids):
        values = {"changed_seq": change, "facts_seq": change}
        tx.execute(sa.update(t.hosts).where(t.hosts.c.id.in_(ids)).values(values))


def touch_uses(tx: Connection, change: int, host_ids: Sequence[str]) -> None:
    """Mark hosts of which nothing has changed but what is in use."""
    for ids in chunks(host_ids):
        tx.execute(sa.update(t.hosts).where(t.hosts.c.id.in_(ids)).values(changed_seq=change))


def _room(tx: Connection, host_ids: Sequence[str], resources: Mapping[str, int]) -> Mapping[str, int]:
    """Copies that each host can take now, its inventory rows locked until the transaction ends."""
    inventory = t.inventories.c
    copies: dict[str, list[int]] = {}
    for ids in chunks(host_ids):
        rows = tx.execute(
            sa.select(
                inventory.host_id,
                inventory.resource_class,
                inventory.capacity,
                inventory.used,
                inventory.min_unit,
                inventory.max_unit,
                inventory.step_size,
            )
            .where(inventory.host_id.in_(ids), inventory.resource_class.in_(list(resources)))
            .order_by(inventory.host_id, inventory.resource_class)
            .with_for_update()
        )
        for host, name, capacity, used, min_unit, max_unit, step_size in rows:
            amount = resources[name]
            admitted = min_unit <= amount <= max_unit and amount % step_size == 0
            copies.setdefault(host, []).append(max(0, capacity - used) // amount if admitted else 0)
    # A host without a row for one of the classes has none of it.
    return {host: min(found) for host, found in copies.items() if len(found) == len(resources)}
