"""Hosts as the host table in memory takes them: whole rows, read by what changed or page by page.

Whoever changes a host, its inventories or its placements takes a number from `counters` and notes it in
`hosts.changed_seq`, in the same transaction. The counter's row stays locked until that transaction ends, so
numbers become visible in their order, and a reader that has seen one has missed none below it.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.aggregate import Aggregate, zone_of
from zonesched.model.capacity import Inventory
from zonesched.model.host_row import HostFacts, HostRow, HostUse
from zonesched.model.placement import CLAIMING, InstanceStatus
from zonesched.store import claims, identity
from zonesched.store import tables as t

COLUMNS = t.hosts.c
_REMOVALS = sa.select(t.counters.c.value).where(t.counters.c.name == identity.REMOVALS).scalar_subquery()
_STATE = sa.select(sa.func.max(COLUMNS.changed_seq), _REMOVALS)


@dataclass(frozen=True)
class _Reported:
    facts: HostFacts
    failed_builds: int
    metrics: Mapping[str, float]


@dataclass
class _Counts:
    """The fields of a HostRow that count living instances."""

    owners: Counter[str] = field(default_factory=Counter)
    flavors: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    num_building: int = 0


def owner_key(caller_id: str, project_id: str) -> str:
    """Whose instance it is: a parent's user, or this zone, and the project it named."""
    return f"{caller_id}:{project_id}"


def group_key(caller_id: str, group_id: str) -> str:
    """Which server group it is: a parent's user, or this zone, and the group it named."""
    return f"{caller_id}:{group_id}"


@dataclass(frozen=True)
class Moment:
    """How far a reader has come: the highest number of a host's change, and how many hosts were removed."""

    seq: int
    removals: int


@dataclass(frozen=True)
class Changes:
    """What changed of a zone's hosts: `rows` as a whole, `uses` (by id) nothing but what is in use.

    `present` are the ids of all hosts if any was removed, else None. `until` is the moment to ask from next.
    """

    rows: Sequence[HostRow]
    uses: Mapping[str, HostUse]
    present: frozenset[str] | None
    until: Moment


def moment(tx: Connection) -> Moment:
    """The newest moment."""
    seq, removals = tx.execute(_STATE).one()
    return Moment(seq or 0, removals or 0)


def changes(tx: Connection, since: Moment) -> Changes:
    """The hosts that changed after `since`, as they are now."""
    newest = moment(tx)
    present = None
    if newest.removals != since.removals:
        present = frozenset(tx.execute(sa.select(COLUMNS.id)).scalars())
    if newest.seq <= since.seq:
        return Changes([], {}, present, Moment(since.seq, newest.removals))
    rows = _rows(tx, sa.and_(COLUMNS.changed_seq > since.seq, COLUMNS.facts_seq > since.seq))
    return Changes(rows, _uses(tx, since.seq), present, newest)


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


def id_of(tx: Connection, name: str) -> str | None:
    """The id of the host of that name."""
    return tx.execute(sa.select(COLUMNS.id).where(COLUMNS.name == name)).scalar()


def note_builds(tx: Connection, change: int, host_ids: Sequence[str]) -> None:
    """Something was built on each of these hosts: no build has failed since, and one less is going on."""
    for some in claims.chunks(host_ids):
        values = {"failed_builds": 0, "changed_seq": change}
        tx.execute(sa.update(t.hosts).where(COLUMNS.id.in_(some)).values(values))


def note_failed_build(tx: Connection, change: int, host_id: str) -> None:
    """A build failed on this host."""
    values = {COLUMNS.failed_builds: COLUMNS.failed_builds + 1, COLUMNS.changed_seq: change}
    tx.execute(sa.update(t.hosts).where(COLUMNS.id == host_id).values(values))


def _uses(tx: Connection, since_seq: int) -> Mapping[str, HostUse]:
    which = sa.and_(COLUMNS.changed_seq > since_seq, COLUMNS.facts_seq <= since_seq)
    failed_builds = {
        row.id: row.failed_builds
        for row in tx.execute(sa.select(COLUMNS.id, COLUMNS.failed_builds).where(which))
    }
    if not failed_builds:
        return {}
    column = t.inventories.c
    used: dict[str, dict[str, int]] = {host_id: {} for host_id in failed_builds}
    statement = sa.select(column.host_id, column.resource_class, column.used)
    for host_id, name, amount in tx.execute(
        statement.where(column.host_id.in_(sa.select(COLUMNS.id).where(which)))
    ):
        used[host_id][name] = amount
    counts = _counts(tx, which)
    nothing = _Counts()
    return {
        host_id: HostUse(used[host_id], **vars(counts.get(host_id, nothing)), failed_builds=failed)
        for host_id, failed in failed_builds.items()
    }


def _rows(tx: Connection, which: Any) -> list[HostRow]:
    facts = _facts(tx, which)
    if not facts:
        return []
    inventories, used = _inventories(tx, which)
    counts = _counts(tx, which)
    nothing = _Counts()
    return [
        HostRow(
            f.facts,
            inventories.get(f.facts.id, {}),
            HostUse(
                used.get(f.facts.id, {}),
                **vars(counts.get(f.facts.id, nothing)),
                failed_builds=f.failed_builds,
            ),
            f.metrics,
        )
        for f in facts
    ]


def _facts(tx: Connection, which: Any) -> list[_Reported]:
    statement = sa.select(
        COLUMNS.id,
        COLUMNS.name,
        COLUMNS.address,
        COLUMNS.availability_zone,
        COLUMNS.service_id,
        COLUMNS.capabilities,
        COLUMNS.traits,
        COLUMNS.enabled,
        COLUMNS.forced_down,
        COLUMNS.failed_builds,
        COLUMNS.metrics,
    )
    aggregates = aggregates_of(tx, which)
    # Most hosts say the same of themselves: each text is read once, and its value shared.
    capabilities: dict[str, Mapping[str, Any]] = {}
    traits: dict[str, frozenset[str]] = {}
    found = []
    for row in tx.execute(statement.where(which)):
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
            enabled=row.enabled,
            forced_down=row.forced_down,
            aggregates=aggregates.get(row.id, ()),
        )
        found.append(_Reported(facts, row.failed_builds, orjson.loads(row.metrics)))
    # Sorted here: asked to, a planner may walk through all hosts in order to find a few.
    return sorted(found, key=lambda one: one.facts.id)


def aggregates_of(tx: Connection, which: Any) -> Mapping[str, tuple[Aggregate, ...]]:
    """The aggregates of each host that is in any, in order of id; `which` is a condition on `hosts`."""
    known = {
        row.id: Aggregate(row.id, row.name, orjson.loads(row.metadata))
        for row in tx.execute(sa.select(t.aggregates))
    }
    if not known:
        return {}
    member = t.aggregate_hosts.c
    some_hosts = sa.select(COLUMNS.id).where(which)
    statement = sa.select(member.host_id, member.aggregate_id).where(member.host_id.in_(some_hosts))
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for host_id, aggregate_id in tx.execute(statement):
        ids[host_id].append(aggregate_id)
    return {host_id: tuple(known[i] for i in sorted(found)) for host_id, found in ids.items()}


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


def _counts(tx: Connection, which: Any) -> Mapping[str, _Counts]:
    """What is counted of the living instances of each host that has any."""
    placed, instance = t.placements.c, t.instances.c
    shared = (
        placed.host_id,
        instance.caller_id,
        instance.project_id,
        instance.flavor_id,
        instance.image_key,
        instance.group_id,
        instance.status,
    )
    statement = (
        sa.select(*shared, sa.func.count())
        .join(t.instances, instance.uuid == placed.uuid)
        .where(placed.host_id.in_(sa.select(COLUMNS.id).where(which)))
        .where(placed.state.in_(sorted(state.value for state in CLAIMING)))
        .group_by(*shared)
    )
    counts: defaultdict[str, _Counts] = defaultdict(_Counts)
    for host_id, caller_id, project_id, flavor_id, image_key, group_id, status, count in tx.execute(
        statement
    ):
        of_host = counts[host_id]
        # Each text once for all hosts: a table keeps them for as long as the instances live.
        of_host.owners[sys.intern(owner_key(caller_id, project_id))] += count
        of_host.flavors[sys.intern(flavor_id)] += count
        of_host.images[sys.intern(image_key)] += count
        if group_id:
            of_host.groups[sys.intern(group_key(caller_id, group_id))] += count
        if status == InstanceStatus.BUILD.value:
            of_host.num_building += count
    return counts
