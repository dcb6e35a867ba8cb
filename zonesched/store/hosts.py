"""Rows of hosts for the host table in memory, read by change or page by page.

Whoever changes a host, its inventories or its placements takes a number from `counters` and notes it in
`hosts.changed_seq`, in the same transaction. Numbers may become visible in another order than they were
given (see `identity`): a reader continues at the number up to which none is missing, and reads some twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.aggregate import Aggregate, zone_of
from zonesched.model.capacity import Inventory
from zonesched.model.host_query import HostQuery
from zonesched.model.host_row import HostFacts, HostRow
from zonesched.model.host_uses import NO_USES, HostUses
from zonesched.store import claims, identity
from zonesched.store import tables as t
from zonesched.store.host_uses import UsesOf
from zonesched.store.prepared import Prepared, one_of
from zonesched.store.text_parts import has_part

COLUMNS = t.hosts.c
_REMOVALS = sa.select(t.counters.c.value).where(t.counters.c.name == identity.REMOVALS).scalar_subquery()
_STATE = Prepared(sa.select(sa.func.max(COLUMNS.changed_seq), _REMOVALS))
_SEQUENCES = sa.select(COLUMNS.id, COLUMNS.changed_seq, COLUMNS.facts_seq)
_CHANGED = Prepared(_SEQUENCES.where(COLUMNS.changed_seq > sa.bindparam("since", type_=sa.BigInteger)))
_PAGE = (
    sa.select(COLUMNS.id)
    .where(COLUMNS.id > sa.bindparam("after_id"))
    .order_by(COLUMNS.id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .subquery()
)
_LAST_OF_PAGE = Prepared(sa.select(sa.func.max(_PAGE.c.id).label("id")))
NOTHING_KNOWN: Mapping[str, int] = {}


@dataclass(frozen=True)
class Watermark:
    """Position of a reader: it has seen all changes up to this number, and this many removals of hosts."""

    seq: int
    removals: int


@dataclass(frozen=True)
class Changes:
    """Changes of a zone's hosts: `rows` changed as a whole; of the hosts in `uses` only the uses changed.

    `present`: the ids of all hosts if any was removed, else None. `until`: the watermark of the next read.
    `later`: by host id, the number of each change that was read and that comes after `until`; the next read
    takes these as known.
    """

    rows: Sequence[HostRow]
    uses: HostUses
    present: frozenset[str] | None
    until: Watermark
    later: Mapping[str, int]


def moment(tx: Connection) -> Watermark:
    """Read the watermark of the newest changes."""
    return Watermark(identity.visible_change(tx), _STATE.first(tx)[1] or 0)


def changes(tx: Connection, since: Watermark, known: Mapping[str, int] = NOTHING_KNOWN) -> Changes:
    """Read the hosts that changed after `since`, as they are now.

    `known`: the numbers of later changes, by host id, that the reader has already.
    """
    newest_seq, removals = _STATE.first(tx)
    present = None
    if removals != since.removals:
        present = frozenset(tx.execute(sa.select(COLUMNS.id)).scalars())
    if (newest_seq or 0) <= since.seq:
        return Changes([], NO_USES, present, Watermark(since.seq, removals), {})
    visible_change = identity.ask_visible_change(tx)
    changed = _CHANGED.all(tx, since=since.seq)
    until = Watermark(max(since.seq, visible_change()), removals)
    new = [row for row in changed if known.get(row.id) != row.changed_seq]
    facts = [row.id for row in new if row.facts_seq > since.seq]
    uses = [row.id for row in new if row.facts_seq <= since.seq]
    return Changes(
        rows=_OF_IDS.read(tx, ids=facts) if facts else [],
        uses=_USES_OF_IDS.read(tx, ids=uses) if uses else NO_USES,
        present=present,
        until=until,
        later={row.id: row.changed_seq for row in changed if row.changed_seq > until.seq},
    )


def page(tx: Connection, after_id: str, limit: int) -> list[HostRow]:
    """Read the next `limit` hosts in order of id; fewer at the end."""
    last = _LAST_OF_PAGE.first(tx, after_id=after_id, limit=limit).id
    if last is None:
        return []
    return _BETWEEN.read(tx, after_id=after_id, last_id=last)


def ids(tx: Connection, wanted: HostQuery) -> list[str]:
    """Read the ids of the hosts that are wanted, in order."""
    statement = sa.select(COLUMNS.id).where(COLUMNS.id > wanted.after).order_by(COLUMNS.id)
    if wanted.text:
        statement = statement.where(has_part(COLUMNS.name, wanted.text))
    return list(tx.execute(statement.limit(wanted.limit or None)).scalars())


def facts_of(tx: Connection, host_ids: Sequence[str]) -> list[HostFacts]:
    """Read the facts of these hosts, without the instances on them, in order of id."""
    return [host for some in claims.chunks(sorted(host_ids)) for host in _OF_IDS.facts(tx, ids=some)]


def count(tx: Connection) -> int:
    """Count the hosts."""
    return int(tx.execute(sa.select(sa.func.count()).select_from(t.hosts)).scalar_one())


def every(tx: Connection) -> list[HostRow]:
    """Read all hosts, in order of id."""
    return _ALL.read(tx)


def rows_of(tx: Connection, host_ids: Sequence[str]) -> list[HostRow]:
    """Read the hosts of these ids, in order of id."""
    return _OF_IDS.read(tx, ids=host_ids)


def read_one(tx: Connection, host_id: str) -> HostFacts | None:
    """Read the facts of one host by id."""
    return next(iter(_OF_IDS.facts(tx, ids=[host_id])), None)


def id_of(tx: Connection, name: str) -> str | None:
    """Read the id of the host of that name."""
    found = _ID_OF.first(tx, host_name=name)
    return str(found.id) if found else None


def ids_of_service(tx: Connection, service_id: str) -> dict[str, str]:
    """Read the ids of a service's hosts, by name."""
    query = sa.select(COLUMNS.name, COLUMNS.id).where(COLUMNS.service_id == service_id)
    return {row.name: row.id for row in tx.execute(query)}


def note_builds(tx: Connection, change: int, host_ids: Sequence[str]) -> None:
    """Note a successful build on each of these hosts, which resets their counts of failed builds."""
    for some in claims.chunks(host_ids):
        values = {"failed_builds": 0, "changed_seq": change}
        tx.execute(sa.update(t.hosts).where(COLUMNS.id.in_(some)).values(values))


def note_failed_build(tx: Connection, change: int, host_id: str) -> None:
    """Count a failed build on this host."""
    values = {COLUMNS.failed_builds: COLUMNS.failed_builds + 1, COLUMNS.changed_seq: change}
    tx.execute(sa.update(t.hosts).where(COLUMNS.id == host_id).values(values))


class _RowsOf:
    """Query of the hosts that meet `which`, a condition on `hosts`; compiled once."""

    def __init__(self, which: sa.ColumnElement[bool]) -> None:
        inventory = t.inventories.c
        self._facts = Prepared(_FACTS.where(which))
        self._aggregates = AggregatesOf(which)
        # A list of ids, since a planner may read all inventories for a join with few hosts.
        some_hosts = sa.select(COLUMNS.id).where(which)
        self._inventories = Prepared(_INVENTORIES.where(inventory.host_id.in_(some_hosts)))
        self._uses = UsesOf(which)

    def read(self, tx: Connection, **values: Any) -> list[HostRow]:
        """Read the hosts in order of id; `values` are the parameters of the condition."""
        facts = self._facts_and_metrics(tx, **values)
        if not facts:
            return []
        inventories = _by_host(self._inventories.all(tx, **values))
        uses = self._uses.read(tx, **values).by_id()
        return [HostRow(f, inventories.get(f.id, {}), uses[f.id], metrics) for f, metrics in facts]

    def facts(self, tx: Connection, **values: Any) -> list[HostFacts]:
        """Read the facts alone of the hosts that `read` reads, in order of id."""
        return [facts for facts, _ in self._facts_and_metrics(tx, **values)]

    def _facts_and_metrics(
        self, tx: Connection, **values: Any
    ) -> list[tuple[HostFacts, Mapping[str, float]]]:
        found = self._facts.all(tx, **values)
        return _with_facts(found, self._aggregates.read(tx, **values)) if found else []


_FACTS = sa.select(
    COLUMNS.id,
    COLUMNS.name,
    COLUMNS.address,
    COLUMNS.availability_zone,
    COLUMNS.service_id,
    COLUMNS.capabilities,
    COLUMNS.traits,
    COLUMNS.enabled,
    COLUMNS.forced_down,
    COLUMNS.metrics,
)
_INVENTORIES = sa.select(
    t.inventories.c.host_id,
    t.inventories.c.resource_class,
    t.inventories.c.total,
    t.inventories.c.reserved,
    t.inventories.c.allocation_ratio,
    t.inventories.c.min_unit,
    t.inventories.c.max_unit,
    t.inventories.c.step_size,
)


def _with_facts(
    rows: Iterable[Any], aggregates: Mapping[str, tuple[Aggregate, ...]]
) -> list[tuple[HostFacts, Mapping[str, float]]]:
    """Make facts and metrics of each host, in order of id."""
    # Most hosts report the same texts: each distinct text is parsed once and its value shared.
    capabilities: dict[str, Mapping[str, Any]] = {}
    traits: dict[str, frozenset[str]] = {}
    found = []
    for row in rows:
        if row.capabilities not in capabilities:
            capabilities[row.capabilities] = orjson.loads(row.capabilities)
        if row.traits not in traits:
            traits[row.traits] = frozenset(orjson.loads(row.traits))
        facts = HostFacts(
            id=row.id,
            name=row.name,
            address=row.address,
            availability_zone=zone_of(aggregates.get(row.id, ()), row.availability_zone),
            service_id=row.service_id,
            capabilities=capabilities[row.capabilities],
            traits=traits[row.traits],
            enabled=bool(row.enabled),
            forced_down=bool(row.forced_down),
            aggregates=aggregates.get(row.id, ()),
        )
        found.append((facts, orjson.loads(row.metrics)))
    # Sorted here: for ORDER BY, a planner may walk through all hosts to find a few.
    return sorted(found, key=lambda one: one[0].id)


class AggregatesOf:
    """Query of the aggregates of the hosts that meet `which`; hosts in no aggregate are left out."""

    def __init__(self, which: sa.ColumnElement[bool]) -> None:
        member = t.aggregate_hosts.c
        some_hosts = sa.select(COLUMNS.id).where(which)
        self._members = Prepared(
            sa.select(member.host_id, member.aggregate_id).where(member.host_id.in_(some_hosts))
        )

    def read(self, tx: Connection, **values: Any) -> Mapping[str, tuple[Aggregate, ...]]:
        """Read aggregates by host id, in order of id; `values` are the condition's parameters."""
        known = {
            row.id: Aggregate(row.id, row.name, orjson.loads(row.metadata)) for row in _AGGREGATES.all(tx)
        }
        if not known:
            return {}
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for host_id, aggregate_id in self._members.all(tx, **values):
            ids[host_id].append(aggregate_id)
        return {host_id: tuple(known[i] for i in sorted(found)) for host_id, found in ids.items()}


_AGGREGATES = Prepared(sa.select(t.aggregates))


def _by_host(rows: Iterable[Any]) -> Mapping[str, Mapping[str, Inventory]]:
    inventories: defaultdict[str, dict[str, Inventory]] = defaultdict(dict)
    grouped: dict[tuple[Any, ...], Inventory] = {}
    for host_id, name, *form in rows:
        key = tuple(form)
        if key not in grouped:
            grouped[key] = Inventory(*form)
        inventories[host_id][name] = grouped[key]
    return inventories


_ALL = _RowsOf(sa.true())
_OF_IDS = _RowsOf(one_of(COLUMNS.id, "ids"))
_USES_OF_IDS = UsesOf(one_of(COLUMNS.id, "ids"))
_BETWEEN = _RowsOf(sa.and_(COLUMNS.id > sa.bindparam("after_id"), COLUMNS.id <= sa.bindparam("last_id")))
_ID_OF = Prepared(sa.select(COLUMNS.id).where(COLUMNS.name == sa.bindparam("host_name")))
