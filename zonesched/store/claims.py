"""Claiming and releasing resources of local hosts; the only writer of `inventories.used`.

The caller has locked the hosts (`store.locks`), so that transactions do not deadlock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import locks
from zonesched.store import tables as t
from zonesched.store.prepared import List, Prepared, one_of, run_text

T = TypeVar("T")
CHUNK = 500

_inventory = t.inventories.c
_AMOUNT = sa.bindparam("amount", type_=sa.BigInteger)
_OF_CLASS = (
    one_of(_inventory.host_id, "hosts"),
    _inventory.resource_class == sa.bindparam("class_name"),
)
_ONE = sa.bindparam("of_one", type_=sa.BigInteger)
_TAKE = Prepared(
    sa.update(t.inventories)
    .where(*_OF_CLASS)
    .where(_inventory.used + _AMOUNT <= _inventory.capacity)
    .where(_inventory.min_unit <= _ONE, _inventory.max_unit >= _ONE, _ONE % _inventory.step_size == 0)
    .values(used=_inventory.used + _AMOUNT)
)
# One list of rows, each of a host and a class, joined by the key of an inventory. PostgreSQL would join two
# lists with each other, and with every row of the table where it expects few.
_WANTED = sa.func.unnest(
    sa.bindparam("hosts", type_=List()),
    sa.bindparam("names", type_=List()),
    sa.bindparam("amounts", type_=List(sa.BigInteger)),
    sa.bindparam("taken", type_=List(sa.BigInteger)),
)
_EACH = _WANTED.table_valued(
    sa.column("host", sa.Text),
    sa.column("name", sa.Text),
    sa.column("amount", sa.BigInteger),
    sa.column("taken", sa.BigInteger),
).render_derived()
_TAKE_ALL = Prepared(
    sa.update(t.inventories)
    .where(_inventory.host_id == _EACH.c.host, _inventory.resource_class == _EACH.c.name)
    .where(_inventory.used + _EACH.c.taken <= _inventory.capacity)
    .where(_inventory.min_unit <= _EACH.c.amount, _inventory.max_unit >= _EACH.c.amount)
    .where(_EACH.c.amount % _inventory.step_size == 0)
    .values(used=_inventory.used + _EACH.c.taken)
)
_GIVE = Prepared(sa.update(t.inventories).where(*_OF_CLASS).values(used=_inventory.used - _AMOUNT))
_TOUCH = Prepared(
    sa.update(t.hosts)
    .where(one_of(t.hosts.c.id, "ids"))
    .values(changed_seq=sa.bindparam("change"), facts_seq=sa.bindparam("change"))
)
_TOUCH_USES = Prepared(
    sa.update(t.hosts).where(one_of(t.hosts.c.id, "ids")).values(changed_seq=sa.bindparam("change"))
)
_LAST_CHANGES = Prepared(sa.select(t.hosts.c.id, t.hosts.c.changed_seq).where(one_of(t.hosts.c.id, "ids")))
_ROOM = Prepared(
    sa.select(
        _inventory.host_id,
        _inventory.resource_class,
        _inventory.capacity,
        _inventory.used,
        _inventory.min_unit,
        _inventory.max_unit,
        _inventory.step_size,
    ).where(one_of(_inventory.host_id, "hosts"), one_of(_inventory.resource_class, "classes"))
)


@dataclass(frozen=True)
class Taken:
    """Result of a claim, by host id.

    `copies`: how many each host took, 0 where it has no free slots. `changed_before`: the number of the last
    change before the claim of each host that took some.
    """

    copies: Mapping[str, int]
    changed_before: Mapping[str, int]


def chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """Split the items into chunks of at most `size`, which keeps IN lists within every database's limit."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def claim(
    tx: Connection, change: int, copies_by_host: Mapping[str, int], resources: Mapping[str, int]
) -> Mapping[str, int]:
    """Claim copies of `resources`; return how many each host took (0 where it has no free slots).

    Raises RuntimeError as `claim_noted`.
    """
    return claim_noted(tx, change, copies_by_host, resources).copies


def claim_noted(
    tx: Connection, change: int, copies_by_host: Mapping[str, int], resources: Mapping[str, int]
) -> Taken:
    """Claim copies of `resources`; return also which change of each host came before.

    The first update assumes that all hosts have free slots; they are read only when it fails. The hosts are
    locked, so the second conditional update cannot fail; its condition protects hosts from over-commitment
    all the same. Raises RuntimeError if it does fail.
    """
    wanted = dict(sorted(copies_by_host.items()))
    if not wanted:
        return Taken({}, {})
    locks.hosts(tx, wanted)
    taken = wanted
    run_text(tx, "SAVEPOINT all_or_none")
    if not _take(tx, wanted, resources):
        run_text(tx, "ROLLBACK TO all_or_none")
        free = _free_slots(tx, list(wanted), resources)
        taken = {host: min(copies, free.get(host, 0)) for host, copies in wanted.items()}
        if not _take(tx, taken, resources):
            raise RuntimeError("a claim met a host that had changed under its lock")
    run_text(tx, "RELEASE all_or_none")
    claimed = [host for host, copies in taken.items() if copies]
    if not claimed:
        return Taken(taken, {})
    changed_before = last_changes(tx, claimed)
    touch_uses(tx, change, claimed)
    return Taken(taken, changed_before)


def claim_all(tx: Connection, wanted: Iterable[tuple[Mapping[str, int], Mapping[str, int]]]) -> bool:
    """Claim each (copies by host, resources) on hosts that the caller has locked.

    False if a host has too few free slots: the caller rolls back, else it marks the hosts as changed
    (`touch_uses`).
    """
    together: defaultdict[tuple[tuple[str, int], ...], Counter[str]] = defaultdict(Counter)
    for copies_by_host, resources in wanted:
        together[tuple(sorted(resources.items()))].update(copies_by_host)
    return all(
        _take(tx, dict(sorted(copies_by_host.items())), dict(resources))
        for resources, copies_by_host in together.items()
    )


def release(tx: Connection, change: int, claims: Iterable[tuple[str, Mapping[str, int]]]) -> None:
    """Release the resources of each (host id, resources)."""
    amounts: Counter[tuple[str, str]] = Counter()
    for host, resources in claims:
        for name, amount in resources.items():
            amounts[host, name] += amount
    # One statement for all hosts with the same amount of a class.
    grouped: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for (host, name), amount in sorted(amounts.items()):
        grouped[name, amount].append(host)
    for (name, amount), hosts in grouped.items():
        _GIVE.send(tx, hosts=hosts, class_name=name, amount=amount)
    if amounts:
        touch_uses(tx, change, sorted({host for host, _ in amounts}))


def _take(tx: Connection, copies_by_host: Mapping[str, int], resources: Mapping[str, int]) -> bool:
    """Claim copies; False if a host has too few slots.

    PostgreSQL takes all in one statement, SQLite in one for each number of copies and class.
    """
    if tx.dialect.name == "postgresql":
        of_each = sorted(resources.items())
        rows = [
            (host, name, amount, copies * amount)
            for host, copies in copies_by_host.items()
            if copies
            for name, amount in of_each
        ]
        if not rows:
            return True
        hosts, names, amounts, taken = zip(*rows, strict=True)
        return _TAKE_ALL.run(tx, hosts=hosts, names=names, amounts=amounts, taken=taken) == len(rows)
    grouped: defaultdict[int, list[str]] = defaultdict(list)
    for host, copies in copies_by_host.items():
        if copies:
            grouped[copies].append(host)
    return all(
        _TAKE.run(tx, hosts=hosts, class_name=name, amount=copies * of_one, of_one=of_one) == len(hosts)
        for name, of_one in sorted(resources.items())
        for copies, hosts in grouped.items()
    )


def touch_hosts(tx: Connection, change: int, host_ids: Sequence[str]) -> None:
    """Mark hosts as changed, so that tables in memory read them again."""
    _TOUCH.send(tx, ids=host_ids, change=change)


def touch_uses(tx: Connection, change: int, host_ids: Sequence[str]) -> None:
    """Mark hosts as changed in their use only."""
    _TOUCH_USES.send(tx, ids=host_ids, change=change)


def last_changes(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, int]:
    """Read the number of the last change of each of these hosts, by id."""
    return {row.id: row.changed_seq for row in _LAST_CHANGES.all(tx, ids=host_ids)}


def _free_slots(tx: Connection, host_ids: Sequence[str], resources: Mapping[str, int]) -> Mapping[str, int]:
    """Return the free slots of each host."""
    copies: dict[str, list[int]] = {}
    rows = _ROOM.all(tx, hosts=host_ids, classes=list(resources))
    for host, name, capacity, used, min_unit, max_unit, step_size in rows:
        amount = resources[name]
        admitted = min_unit <= amount <= max_unit and amount % step_size == 0
        copies.setdefault(host, []).append(max(0, capacity - used) // amount if admitted else 0)
    # A host without an inventory of one of the classes has no free slots.
    return {host: min(found) for host, found in copies.items() if len(found) == len(resources)}
