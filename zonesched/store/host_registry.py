"""Storing agents' reports of their hosts. Only claims change `used`; it survives every report.

The effective inventory follows from the report and the operators' settings: see `capacities`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.errors import Conflict
from zonesched.model.capacity import Inventory
from zonesched.model.host_row import HostFacts, HostRow
from zonesched.store import capacities, claims, identity, locks, services
from zonesched.store import tables as t
from zonesched.store.services import Service, is_user
from zonesched.store.silent_agents import NOTHING_RUNS, Silence, may_run
from zonesched.store.sorted_json import sorted_json

COLUMNS = t.hosts.c
_service = t.services.c
_OWNER = (
    _service.user_id,
    _service.name.label("owner"),
    _service.last_seen_at.label("owner_seen_at"),
)
FACT_COLUMNS = ("address", "availability_zone", "service_id", "capabilities", "traits", "metrics")


@dataclass(frozen=True)
class _Stored:
    """An agent's last report of one inventory.

    `excess`: the use is below the amount noted when the capacity shrank, so that note may be outdated.
    """

    reported: Inventory
    used: int
    excess: bool


@dataclass
class _Writes:
    """Rows that a report inserts, changes or ends."""

    new_hosts: list[dict[str, Any]] = field(default_factory=list)
    changed_hosts: list[dict[str, Any]] = field(default_factory=list)
    new_inventories: list[dict[str, Any]] = field(default_factory=list)
    changed_inventories: list[dict[str, Any]] = field(default_factory=list)
    ended_inventories: list[dict[str, Any]] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)


def register(
    tx: Connection, service: Service, reported: Sequence[HostRow], silence: Silence
) -> Mapping[str, str]:
    """Store the hosts of a service's report, which has just called; return their ids by name.

    A new host gets the id of its row in `reported`. A resource class that a known host no longer reports
    keeps its row with a total of 0 while claims use it, else the row is deleted. Unchanged rows are not
    written.
    Raises Conflict for a host of another user's service, and for one of another service whose agent may not
    have ended, by its `silence`: where two agents have hosts of one name, the first would end its instances
    as no longer wanted.
    """
    known = _known_hosts(tx, service, [row.facts.name for row in reported], silence)
    stored = _stored_inventories(tx, [str(row["id"]) for row in known.values()])
    writes = _Writes()
    ids: dict[str, str] = {}
    for row in sorted(reported, key=lambda row: row.facts.name):
        facts = replace(row.facts, service_id=service.id)
        host_id = _compare_facts(writes, facts, row.metrics, known.get(facts.name))
        ids[facts.name] = host_id
        _compare_inventories(writes, host_id, row.inventories, stored.get(host_id, {}))
    _write(tx, writes)
    return ids


def _known_hosts(
    tx: Connection, service: Service, names: Sequence[str], silence: Silence
) -> Mapping[str, dict[str, Any]]:
    locked: set[str] = set()
    while True:
        known = _read_known(tx, names)
        asked: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in known.values():
            if row["service_id"] != service.id:
                asked[row["service_id"]].append(row)
        _check_users(tx, service, known.values())
        if locked.issuperset(asked):
            break
        # Their agents may register, or fetch what to run, at the same time: all is read again.
        services.lock(tx, sorted(asked))
        locked.update(asked)
    for service_id, rows in asked.items():
        # The agent of a user who was deleted calls no more, but what it runs goes on.
        if rows[0]["user_id"] == service.user_id or may_run(tx, service_id, {row["id"] for row in rows}):
            _check_ended(tx, rows, silence)
    return known


def _read_known(tx: Connection, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read the hosts of these names with their owners."""
    known: dict[str, dict[str, Any]] = {}
    for some in claims.chunks(names):
        statement = sa.select(t.hosts, *_OWNER).join(t.services).where(COLUMNS.name.in_(some))
        known |= {row["name"]: dict(row) for row in tx.execute(statement).mappings()}
    return known


def _check_users(tx: Connection, service: Service, known: Iterable[Mapping[str, Any]]) -> None:
    """Raise Conflict for hosts of another user's service."""
    others: defaultdict[str, list[str]] = defaultdict(list)
    for row in known:
        if row["user_id"] != service.user_id:
            others[row["user_id"]].append(row["name"])
    for user_id, taken in others.items():
        if is_user(tx, user_id):
            raise Conflict(
                f"Host {min(taken)} is registered by another user's service.",
                code="host_belongs_to_another_service",
                field="hosts",
            )


def _check_ended(tx: Connection, rows: Sequence[Mapping[str, Any]], silence: Silence) -> None:
    """Raise Conflict for hosts of one service that may be up, or of an agent that may run instances there."""
    row = rows[0]
    if not silence.is_over(tx, row["service_id"], row["owner_seen_at"], {one["id"] for one in rows}):
        raise Conflict(
            f"Host {row['name']} is registered by the agent {row['owner']}. Give each host a name of its own."
            " If this agent replaces the other, let it ask again: it gets the host once the other has not"
            f" called for {silence.down_time_s:g} s, and {NOTHING_RUNS}.",
            code="host_belongs_to_another_service",
            field="hosts",
        )


def _stored_inventories(tx: Connection, host_ids: Sequence[str]) -> Mapping[str, Mapping[str, _Stored]]:
    found: defaultdict[str, dict[str, _Stored]] = defaultdict(dict)
    for some in claims.chunks(host_ids):
        for row in tx.execute(sa.select(t.inventories).where(t.inventories.c.host_id.in_(some))):
            inventory = Inventory(
                total=row.total,
                reserved=row.reported_reserved,
                allocation_ratio=row.reported_ratio,
                min_unit=row.min_unit,
                max_unit=row.max_unit,
                step_size=row.step_size,
            )
            found[row.host_id][row.resource_class] = _Stored(inventory, row.used, row.used < row.shrunk_used)
    return found


def _compare_facts(
    writes: _Writes, facts: HostFacts, metrics: Mapping[str, float], known: Mapping[str, Any] | None
) -> str:
    values = {
        "address": facts.address,
        "availability_zone": facts.availability_zone,
        "service_id": facts.service_id,
        "capabilities": sorted_json(facts.capabilities),
        "traits": orjson.dumps(sorted(facts.traits)).decode(),
        "metrics": sorted_json(metrics),
    }
    if known is None:
        of_operators = {"enabled": facts.enabled, "disabled_reason": "", "forced_down": facts.forced_down}
        fresh = {"id": facts.id, "name": facts.name, "failed_builds": 0}
        writes.new_hosts.append(values | fresh | of_operators)
        return facts.id
    if any(known[name] != values[name] for name in FACT_COLUMNS):
        writes.changed_hosts.append({f"b_{k}": v for k, v in values.items()} | {"b_id": known["id"]})
        writes.touched.add(known["id"])
    return str(known["id"])


def _compare_inventories(
    writes: _Writes, host_id: str, reported: Mapping[str, Inventory], stored: Mapping[str, _Stored]
) -> None:
    for name, inventory in sorted(reported.items()):
        if name not in stored:
            writes.new_inventories.append(_new_row(host_id, name, inventory))
        elif stored[name].reported != inventory or stored[name].excess:
            writes.changed_inventories.append(_change(host_id, name, inventory))
        else:
            continue
        writes.touched.add(host_id)
    for name in sorted(stored.keys() - reported.keys()):
        ended = replace(stored[name].reported, total=0, reserved=0)
        if stored[name].used == 0 or stored[name].reported != ended:
            writes.ended_inventories.append(_change(host_id, name, ended))
            writes.touched.add(host_id)


def _reported_columns(inventory: Inventory) -> dict[str, Any]:
    return {
        "total": inventory.total,
        "reported_reserved": inventory.reserved,
        "reported_ratio": inventory.allocation_ratio,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.max_unit,
        "step_size": inventory.step_size,
    }


def _new_row(host_id: str, name: str, inventory: Inventory) -> dict[str, Any]:
    counting = {
        "reserved": inventory.reserved,
        "allocation_ratio": inventory.allocation_ratio,
        "capacity": inventory.capacity,
    }
    key = {"host_id": host_id, "resource_class": name}
    return key | _reported_columns(inventory) | counting | {"used": 0, "shrunk_used": 0}


def _change(host_id: str, name: str, inventory: Inventory) -> dict[str, Any]:
    return {f"b_{k}": v for k, v in _reported_columns(inventory).items()} | {
        "b_host": host_id,
        "b_class": name,
    }


def _write(tx: Connection, writes: _Writes) -> None:
    if not writes.new_hosts and not writes.touched:
        return
    change = identity.next_change(tx)
    known_ids = sorted(writes.touched - {row["id"] for row in writes.new_hosts})
    locks.hosts(tx, known_ids)
    if writes.new_hosts:
        tx.execute(
            sa.insert(t.hosts),
            [row | {"changed_seq": change, "facts_seq": change} for row in writes.new_hosts],
        )
    if writes.changed_hosts:
        values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in FACT_COLUMNS}
        update = sa.update(t.hosts).where(COLUMNS.id == sa.bindparam("b_id")).values(**values)
        tx.execute(update, writes.changed_hosts)
    if writes.new_inventories:
        tx.execute(sa.insert(t.inventories), writes.new_inventories)
    _write_reported(tx, writes.changed_inventories)
    _end_inventories(tx, writes.ended_inventories)
    capacities.recompute(tx, known_ids)
    claims.touch_hosts(tx, change, known_ids)


def _this_inventory() -> Any:
    column = t.inventories.c
    return sa.and_(column.host_id == sa.bindparam("b_host"), column.resource_class == sa.bindparam("b_class"))


def _write_reported(tx: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in _reported_columns(Inventory(0))}
    update = sa.update(t.inventories).where(_this_inventory())
    ordered = sorted(rows, key=lambda row: (row["b_host"], row["b_class"]))
    if ordered:
        tx.execute(update.values(**values), ordered)


def _end_inventories(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    unused = sa.delete(t.inventories).where(_this_inventory(), t.inventories.c.used == 0)
    tx.execute(unused, [{"b_host": row["b_host"], "b_class": row["b_class"]} for row in rows])
    _write_reported(tx, rows)
