"""Database search for the hosts that meet a request's demands.

The search compares columns only: free amounts and units of resource classes, traits, availability zone and
aggregates. Filters check the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import and_

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.aggregate import AVAILABILITY_ZONE, Aggregate
from zonesched.model.host_row import HostRow
from zonesched.model.request_spec import TraitQuery
from zonesched.store import aggregates, hosts
from zonesched.store import tables as t

_host, _inventory, _member = t.hosts.c, t.inventories.c, t.aggregate_hosts.c
_MAY = sa.ColumnElement[bool]


@dataclass(frozen=True)
class Among:
    """Demand for hosts in one of the aggregates `any_of`, or in none of `none_of` (ids).

    `name` and `code` are the filter and the reason code of a refusal.
    """

    name: str
    code: str
    any_of: frozenset[str] | None = None
    none_of: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Demands:
    """Demands on hosts; `resources`: of one instance; an `availability_zone` of "" stands for any."""

    resources: Mapping[str, int]
    traits: TraitQuery = field(default_factory=TraitQuery)
    availability_zone: str = ""
    among: tuple[Among, ...] = field(default=())


@dataclass(frozen=True)
class Refused:
    """Counts of hosts before and after one demand, in order."""

    name: str
    code: str
    before: int
    after: int


def find(tx: Connection, demands: Demands) -> list[HostRow]:
    """Read the hosts that meet all demands now, in order of id."""
    conditions = [condition for _, _, condition in _conditions(tx, demands)]
    ids = tx.execute(sa.select(_host.id).where(*conditions).order_by(_host.id)).scalars().all()
    return hosts.rows_of(tx, ids)


def why(tx: Connection, demands: Demands) -> list[Refused]:
    """Count the hosts that each demand refused, in order of the demands."""
    steps = _conditions(tx, demands)
    passed = accumulate((condition for _, _, condition in steps), and_)
    counts = [sa.func.count().filter(condition) for condition in passed]
    every, *left = tx.execute(sa.select(sa.func.count(), *counts).select_from(t.hosts)).one()
    before = [every, *left[:-1]]
    return [Refused(*step[:2], *pair) for step, *pair in zip(steps, before, left, strict=True)]


def any_reported(tx: Connection) -> bool:
    """Tell whether any agent has reported a host's inventory."""
    return tx.execute(sa.select(_inventory.host_id).limit(1)).first() is not None


def populated_aggregates(tx: Connection) -> Sequence[Aggregate]:
    """Read the aggregates that have hosts."""
    ids = set(tx.execute(sa.select(_member.aggregate_id).distinct()).scalars())
    return [Aggregate(a.id, a.name, a.metadata) for a in aggregates.read_all(tx) if a.id in ids]


def _conditions(tx: Connection, demands: Demands) -> list[tuple[str, str, _MAY]]:
    """List (name, code, condition on `hosts`) for each demand."""
    found: list[tuple[str, str, _MAY]] = []
    for among in demands.among:
        inside = sa.true() if among.any_of is None else _in(among.any_of)
        found.append((among.name, among.code, inside & ~_in(among.none_of)))
    if demands.availability_zone:
        condition = _in_zone(tx, demands.availability_zone)
        found.append(("AvailabilityZoneFilter", "wrong_availability_zone", condition))
    if demands.traits != TraitQuery():
        found.append(("TraitsFilter", "traits_not_met", _with_traits(demands.traits)))
    fits = (_has_free_slot(name, amount) for name, amount in sorted(demands.resources.items()))
    free = sa.and_(sa.true(), *fits)
    found.append(("free_slots", "no_free_slots", free))
    return found


def _in(aggregate_ids: frozenset[str]) -> _MAY:
    if not aggregate_ids:
        return sa.false()
    members = sa.select(_member.host_id).where(_member.aggregate_id.in_(sorted(aggregate_ids)))
    return _host.id.in_(members)


def _in_zone(tx: Connection, wanted: str) -> _MAY:
    """Condition: the host is in this availability zone, as `model.aggregate.zone_of` defines it."""
    zones = {a.id: a.metadata.get(AVAILABILITY_ZONE) for a in aggregates.read_all(tx)}
    there = frozenset(id for id, zone in zones.items() if zone == wanted)
    in_any = frozenset(id for id, zone in zones.items() if zone)
    return _in(there) | ((_host.availability_zone == wanted) & ~_in(in_any))


def _with_traits(query: TraitQuery) -> _MAY:
    return sa.and_(
        *(_has_trait(name) for name in sorted(query.required)),
        *(~_has_trait(name) for name in sorted(query.forbidden)),
        *(sa.or_(sa.false(), *(_has_trait(name) for name in sorted(group))) for group in query.any_of),
    )


def _has_trait(name: str) -> _MAY:
    # The column holds a JSON list of names; a name has no quotes. LIKE ignores case in SQLite.
    return sa.func.replace(_host.traits, f'"{name}"', "") != _host.traits


def _has_free_slot(resource_class: str, amount: int) -> _MAY:
    """Condition: one instance fits, as `scheduler.free_slots` defines it."""
    return sa.exists().where(
        _inventory.host_id == _host.id,
        _inventory.resource_class == resource_class,
        _inventory.capacity - _inventory.used >= amount,
        _inventory.min_unit <= amount,
        _inventory.max_unit >= amount,
        sa.literal(amount, sa.BigInteger) % _inventory.step_size == 0,
    )
