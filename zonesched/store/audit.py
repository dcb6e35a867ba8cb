"""Inconsistencies in the rows of a zone, each kind found by one query.

Live holds, leased work and unanswered calls are passing states and no inconsistencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.inconsistency import (
    Inconsistency,
    OfDatabase,
    OfEntry,
    OfInstance,
    OfInventory,
    OfPlace,
    OfReservation,
)
from zonesched.model.observed_state import Power
from zonesched.model.placement import (
    CLAIMING,
    LIVING_STATUSES,
    OCCUPYING,
    TO_BUILD,
    WANTED,
    InstanceStatus,
    PlacementState,
)
from zonesched.store import capacities, server_history
from zonesched.store import tables as t
from zonesched.store.audit_actions import action_open
from zonesched.store.audit_groups import group_inconsistencies
from zonesched.store.audit_moves import IN_MOVE, move_inconsistencies
from zonesched.store.moves import IS_HELD_FOR_A_MOVE
from zonesched.store.prepared import is_in
from zonesched.store.reservations import ReservationState

State = PlacementState
_place, _instance, _reservation = t.placements.c, t.instances.c, t.reservations.c


@dataclass(frozen=True)
class OverdueTimes:
    """Zone uuid, and the times (epoch seconds) before which a hold or unfinished work is overdue."""

    zone_uuid: str
    holds_overdue_before: float
    work_overdue_before: float


def inconsistencies(tx: Connection, times: OverdueTimes) -> list[Inconsistency]:
    """Find all inconsistencies, in order of kind and subject."""
    found = [
        *commits_lost(tx),
        *used_differs(tx),
        *over_capacity(tx),
        *claim_without_instance(tx),
        *instance_without_place(tx),
        *two_places(tx),
        *entry_used_twice(tx),
        *hold_overdue(tx, times.holds_overdue_before),
        *reservation_overdue(tx, times.work_overdue_before),
        *reservation_counts(tx, times.zone_uuid),
        *group_inconsistencies(tx),
        *action_open(tx),
        *move_inconsistencies(tx, times.work_overdue_before),
    ]
    return sorted(found, key=lambda d: d.order)


def commits_lost(tx: Connection) -> list[Inconsistency]:
    """Check that no process has met a server of PostgreSQL that lacks commits which it was told of."""
    change = server_history.lost_change(tx)
    return [Inconsistency("commits_lost", OfDatabase(), server_history.lost(change))] if change else []


def used_differs(tx: Connection) -> list[Inconsistency]:
    """Check that `inventories.used` is the sum of the claims on the host."""
    claimed: Counter[tuple[str, str]] = Counter()
    for host_id, resources, copies in _alike_claims(tx):
        for name, amount in _amounts(resources):
            claimed[host_id, name] += amount * copies
    row = t.inventories.c
    used = {
        (host_id, name): amount
        for host_id, name, amount in tx.execute(sa.select(row.host_id, row.resource_class, row.used))
    }
    return [
        Inconsistency(
            "used_differs",
            OfInventory(host_id, name),
            f"used is {used.get((host_id, name), 0)}, claims take {claimed[host_id, name]}",
        )
        for host_id, name in used.keys() | claimed.keys()
        if used.get((host_id, name), 0) != claimed[host_id, name]
    ]


COUNTED_AT_ONCE = 50_000
"""Claims that are counted at once: where no two of them are alike, that takes some 15 MB."""


def _alike_claims(tx: Connection) -> Iterator[tuple[str, str, int]]:
    """Count the claims by host and resources; one of these may come several times."""
    alike = (_place.host_id, _place.resources)
    statement: sa.Select[Any] = sa.select(*alike).where(_place.kind == "host", is_in(_place.state, CLAIMING))
    if tx.dialect.name != "sqlite":
        yield from tx.execute(statement.add_columns(sa.func.count()).group_by(*alike))
        return
    # It would sort all claims to group them, in memory; their rows it gives out one by one.
    rows = map(tuple, tx.execute(statement))
    while counted := Counter(islice(rows, COUNTED_AT_ONCE)):
        yield from ((*key, copies) for key, copies in counted.items())


@lru_cache(maxsize=1024)
def _amounts(resources: str) -> tuple[tuple[str, int], ...]:
    return tuple(orjson.loads(resources).items())


def over_capacity(tx: Connection) -> list[Inconsistency]:
    """Check that claims stay within the capacity, or within their sum when the capacity last shrank."""
    found: list[Inconsistency] = []
    for row in capacities.read_all(tx):
        subject = OfInventory(row.host_id, row.resource_class)
        real = row.rightful.capacity
        if row.differs:
            found.append(
                Inconsistency("capacity_differs", subject, f"capacity {row.stored_capacity}, not {real}")
            )
        if row.used > max(real, row.shrunk_used):
            found.append(Inconsistency("over_capacity", subject, f"used is {row.used} of {real}"))
    return found


def claim_without_instance(tx: Connection) -> list[Inconsistency]:
    """Check that every claim is the present place of an instance that has not ended, or of its move.

    In a child zone an instance in ERROR keeps its place until it is deleted. An offloaded one has none.
    """
    # A RELEASING place waits for its agent, whatever the instance's status.
    here = sa.and_(_place.kind == "host", is_in(_place.state, CLAIMING - {State.RELEASING}))
    below = sa.and_(_place.kind == "child", is_in(_place.state, TO_BUILD))
    ended_here = sa.and_(_place.kind == "host", _instance.status == InstanceStatus.ERROR.value)
    has_none = (InstanceStatus.DELETED, InstanceStatus.OFFLOADED)
    statement = (
        sa.select(
            _place.uuid, _place.number, _place.caller_id, _place.state, _instance.status, _instance.attempt
        )
        .outerjoin(t.instances, _instance.uuid == _place.uuid)
        .where(
            sa.or_(here, below),
            sa.or_(
                _instance.uuid.is_(None),
                is_in(_instance.status, has_none),
                ended_here,
                sa.and_(_instance.attempt != _place.number, sa.not_(IN_MOVE)),
            ),
        )
    )
    return [
        Inconsistency(
            "claim_without_instance",
            OfPlace(row.uuid, row.number, row.caller_id),
            f"place is {row.state}, instance is {row.status or 'missing'} at place {row.attempt}",
        )
        for row in tx.execute(statement)
    ]


def instance_without_place(tx: Connection) -> list[Inconsistency]:
    """Check that every living instance has a place, unless a worker still looks for one, or it is leaving."""
    state = t.instance_states.c
    is_leaving = sa.and_(
        _place.state == State.RELEASING.value,
        sa.select(state.uuid)
        .where(state.uuid == _instance.uuid, state.power == Power.OFFLOADED.value)
        .exists(),
    )
    statement = (
        sa.select(_instance.uuid, _instance.caller_id, _instance.status, _instance.attempt, _place.state)
        .join(
            t.reservations,
            sa.and_(
                _reservation.id == _instance.reservation_id, _reservation.caller_id == _instance.caller_id
            ),
        )
        .outerjoin(t.placements, sa.and_(_place.uuid == _instance.uuid, _place.number == _instance.attempt))
        .where(is_in(_instance.status, LIVING_STATUSES))
        .where(_reservation.state != ReservationState.OPEN.value)
        .where(sa.or_(_place.uuid.is_(None), sa.not_(sa.or_(is_in(_place.state, OCCUPYING), is_leaving))))
    )
    return [
        Inconsistency(
            "instance_without_place",
            OfInstance(row.uuid, row.caller_id),
            f"instance is {row.status}, place {row.attempt} is {row.state or 'missing'}",
        )
        for row in tx.execute(statement)
    ]


def two_places(tx: Connection) -> list[Inconsistency]:
    """Check that an instance is built in one place only and keeps no other once its boot is settled.

    The second place of a move is held, and is none of these.
    """
    is_second = sa.and_(_place.state == State.HELD.value, IN_MOVE)
    built = sa.case((is_in(_place.state, TO_BUILD), 1), else_=0)
    settled = sa.case((_reservation.state == ReservationState.SETTLED.value, 1), else_=0)
    other = t.placements.alias()
    # First: SQLite would sort all places to group them, in memory.
    has_another = sa.exists().where(
        other.c.uuid == _place.uuid, other.c.number != _place.number, is_in(other.c.state, WANTED)
    )
    # Most instances have one place, the first: they are left out by the key alone.
    may_have_another = _place.uuid.in_(sa.select(other.c.uuid).where(other.c.number != 1))
    statement = (
        sa.select(
            _place.uuid,
            _place.caller_id,
            sa.func.sum(built).label("built"),
            sa.func.count().label("living"),
        )
        .join(
            t.reservations,
            sa.and_(_reservation.id == _place.reservation_id, _reservation.caller_id == _place.caller_id),
        )
        .where(may_have_another, is_in(_place.state, WANTED), has_another, sa.not_(is_second))
        .group_by(_place.uuid, _place.caller_id)
        .having(sa.or_(sa.func.sum(built) > 1, sa.and_(sa.func.max(settled) == 1, sa.func.count() > 1)))
    )
    return [
        Inconsistency(
            "two_places",
            OfInstance(row.uuid, row.caller_id),
            f"{row.living} places, {row.built} of them built",
        )
        for row in tx.execute(statement)
    ]


def entry_used_twice(tx: Connection) -> list[Inconsistency]:
    """Check that a sealed entry builds at most one instance."""
    statement = (
        sa.select(_place.entry_key, sa.func.count().label("times"))
        .where(_place.entry_key.is_not(None))
        .group_by(_place.entry_key)
        .having(sa.func.count() > 1)
    )
    return [
        Inconsistency("entry_used_twice", OfEntry(row.entry_key), f"used by {row.times} places")
        for row in tx.execute(statement)
    ]


def hold_overdue(tx: Connection, overdue_before: float) -> list[Inconsistency]:
    """Check that unconfirmed holds end soon after they expire."""
    statement = sa.select(
        _place.uuid, _place.number, _place.caller_id, _place.state, _place.hold_expires_at
    ).where(
        t.PLACE_IS_IN_MOTION,
        is_in(_place.state, (State.INTENDED, State.HELD)),
        _place.hold_expires_at < overdue_before,
        sa.not_(IS_HELD_FOR_A_MOVE),
    )
    return [
        Inconsistency(
            "hold_overdue",
            OfPlace(row.uuid, row.number, row.caller_id),
            f"still {row.state}, its hold expired at {row.hold_expires_at:.0f}",
        )
        for row in tx.execute(statement)
    ]


def reservation_overdue(tx: Connection, overdue_before: float) -> list[Inconsistency]:
    """Check that an open boot has a worker or is due in the future."""
    statement = sa.select(
        _reservation.id, _reservation.caller_id, _reservation.next_work_at, _reservation.lease_expires_at
    ).where(
        _reservation.state == ReservationState.OPEN.value,
        _reservation.next_work_at < overdue_before,
        _reservation.lease_expires_at < overdue_before,
        _reservation.created_at < overdue_before,
    )
    return [
        Inconsistency(
            "reservation_overdue",
            OfReservation(row.id, row.caller_id),
            f"due since {max(row.next_work_at, row.lease_expires_at):.0f}, without a worker",
        )
        for row in tx.execute(statement)
    ]


def reservation_counts(tx: Connection, zone_uuid: str) -> list[Inconsistency]:
    """Check that a user's boot has as many instances as requested, and every instance has a reservation."""
    joined = sa.and_(
        _reservation.id == _instance.reservation_id, _reservation.caller_id == _instance.caller_id
    )
    instances = sa.select(sa.func.count()).select_from(t.instances).where(joined).scalar_subquery()
    counted = sa.select(
        _reservation.id, _reservation.caller_id, _reservation.num_instances, instances.label("instances")
    ).where(_reservation.caller_id == zone_uuid, _reservation.num_instances != instances)
    stray = (
        sa.select(_instance.uuid, _instance.caller_id)
        .outerjoin(t.reservations, joined)
        .where(_reservation.id.is_(None))
    )
    return [
        Inconsistency(
            "reservation_counts",
            OfReservation(row.id, row.caller_id),
            f"{row.instances} instances of {row.num_instances}",
        )
        for row in tx.execute(counted)
    ] + [
        Inconsistency("reservation_counts", OfInstance(row.uuid, row.caller_id), "its reservation is missing")
        for row in tx.execute(stray)
    ]
