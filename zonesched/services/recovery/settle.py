"""The end of a recovery: rows are made to say what was found, in the transaction of the operator's repair."""

from __future__ import annotations

from collections.abc import Iterator

from zonesched.model.inconsistency import (
    Inconsistency,
    Left,
    OfNeighbour,
    Repaired,
    RepairResult,
)
from zonesched.model.placement import COUNTED_STATUSES, LOST_IN_RESTORE, InstanceStatus
from zonesched.services.recovery import found_states, shown
from zonesched.services.recovery.decision import (
    NOT_SENT,
    Adopted,
    Confirmed,
    Decision,
    Kept,
    Known,
    Moved,
    Moving,
    Unclaimed,
    Unwanted,
    decide,
)
from zonesched.services.recovery.settling import Settling
from zonesched.services.recovery.told_by_agents import close_hosts
from zonesched.services.zone import Zone
from zonesched.store import agent_work, claims, inbound, instances, placements, recovery
from zonesched.store.instances import Instance
from zonesched.store.recovery import Found, Kind
from zonesched.store.store import Transaction

KINDS = (
    "neighbour_unheard",
    "recovery_open",
    "restored_instance_gone",
    "restored_instance_elsewhere",
    "instance_unknown_here",
)
CHUNK = 500
_AS_ROWS = (Kept, Unwanted)
_PLACED = (Kept, Moved, Moving, Confirmed, Adopted)


def inconsistencies(zone_uuid: str, tx: Transaction) -> list[Inconsistency]:
    """Find what a recovery waits for or, once all are heard, what its end would change."""
    if not recovery.is_under_way(tx):
        again = _found_again(tx, zone_uuid)
        known = {one.found.key for one in again}
        unclaimed = (Unclaimed(one) for one in _all_found(tx) if one.key not in known)
        return [*map(shown.of_decision, again), *map(shown.of_decision, unclaimed)]
    if waiting := shown.unheard(tx):
        return waiting
    found = [shown.of_decision(one) for one in _decisions(tx, zone_uuid) if not isinstance(one, _AS_ROWS)]
    subject = OfNeighbour(Kind.OPERATOR.value, "")
    return [
        *found,
        Inconsistency(
            "recovery_open", subject, "all are heard: `zonesched audit --repair` ends the recovery"
        ),
    ]


def settle(zone: Zone, tx: Transaction, change: int, now: float) -> list[RepairResult]:
    """End the recovery, once all are heard; what is unclaimed runs on, and its host takes no more.

    The caller has locked everything.
    """
    if waiting := shown.unheard(tx):
        return [Left(one, "the recovery goes on once it is heard") for one in waiting]
    recovery.forget_removed_children(tx)
    decisions = list(_decisions(tx, zone.uuid))
    work = Settling(zone, tx, change, now)
    for one in decisions:
        # All that is given back leaves room for what comes: two servers may have changed places.
        work.give_back(one)
    results = [work.settled(one) for one in decisions if not isinstance(one, _AS_ROWS)]
    # The copy may be older than an agent's first call for what it has.
    agent_work.note_fetched(tx, [one.found.uuid for one in decisions if isinstance(one, Kept | Confirmed)])
    recovery.forget(tx, [one.found for one in decisions if isinstance(one, (*_AS_ROWS, Confirmed))])
    placed = [one.found for one in decisions if isinstance(one, _PLACED)]
    found_states.note(tx, change, zone.uuid, placed, now)
    recovery.forget_children(tx)
    close_hosts(tx, _all_found(tx))
    recovery.end(tx)
    subject = OfNeighbour(Kind.OPERATOR.value, "")
    return [
        *results,
        Repaired(Inconsistency("recovery_open", subject, "all are heard"), "the zone serves again"),
    ]


def adopt_again(zone: Zone, tx: Transaction, change: int, now: float) -> list[RepairResult]:
    """Give back to their owners the servers of this zone that a recovery has lost, and that an agent has.

    The caller has locked everything.
    """
    decisions, work = _found_again(tx, zone.uuid), Settling(zone, tx, change, now)
    results = [work.settled(one) for one in decisions]
    found_states.note(tx, change, zone.uuid, [one.found for one in decisions], now)
    return results


def _found_again(tx: Transaction, zone_uuid: str) -> list[Moved]:
    """Decide on the servers that the recovery has found nowhere: their agent came after it."""
    again: list[Moved] = []
    for some in claims.chunks(recovery.found_uuids(tx), CHUNK):
        places = {p.key: p for p in placements.read_by_uuid(tx, some)}
        rows = instances.read_by_uuid(tx, some).values()
        lost = [Known(row, places.get((row.uuid, row.attempt))) for row in rows if _is_lost(row, zone_uuid)]
        found = recovery.found_of(tx, [one.instance.uuid for one in lost])
        decisions = decide(lost, found, places, zone_uuid, is_root=False)
        again += [one for one in decisions if isinstance(one, Moved)]
    return again


def _is_lost(row: Instance, zone_uuid: str) -> bool:
    is_own = row.caller_id == zone_uuid
    return is_own and row.status is InstanceStatus.ERROR and row.reason == LOST_IN_RESTORE


def delete_unknown(tx: Transaction, *, delete: bool) -> list[RepairResult]:
    """Let agents end what no row here has, if that is asked for."""
    found = _all_found(tx)
    if not delete:
        why = "it runs on, and its host takes no more; --delete-unknown ends it"
        return [Left(shown.of_decision(Unclaimed(one)), why) for one in found]
    recovery.forget(tx, found)
    return [Repaired(shown.of_decision(Unclaimed(one)), "its agent ends it") for one in found]


def _all_found(tx: Transaction) -> list[Found]:
    uuids = recovery.found_uuids(tx)
    return [
        one
        for some in claims.chunks(uuids, CHUNK)
        for of_uuid in recovery.found_of(tx, some).values()
        for one in of_uuid
    ]


def _decisions(tx: Transaction, zone_uuid: str) -> Iterator[Decision]:
    is_root = not recovery.has_parents(tx)
    uuids = sorted({*recovery.found_uuids(tx), *recovery.living_uuids(tx)})
    for some in claims.chunks(uuids, CHUNK):
        rows = instances.read_by_uuid(tx, some)
        places = {p.key: p for p in placements.read_by_uuid(tx, some)}
        sent = inbound.attempts_of_places(tx, some)
        known = [
            Known(
                row,
                places.get((row.uuid, row.attempt)),
                sent.get((row.caller_id, row.uuid, row.attempt), NOT_SENT),
            )
            for row in rows.values()
            if row.status in COUNTED_STATUSES or _is_lost(row, zone_uuid)
        ]
        found = recovery.found_of(tx, some)
        yield from decide(known, found, places, zone_uuid, is_root=is_root)
