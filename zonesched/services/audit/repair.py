"""The repair: one transaction corrects what the audit finds, and leaves what it cannot decide for certain.

Each kind has one direction (docs/operate.md): claims win over sums, a placement where an instance may run
over one where none does, the child's rows over this zone's rows for instances there. An instance that may
run is ended only if its owner has deleted it or certainly has another one in its place. A boot that a worker
has leased is left to that worker.

The audit runs again within the transaction, so the repair corrects the rows as they are then; a second run
finds only what the first has left.
"""

from __future__ import annotations

from collections.abc import Callable

from zonesched.model.inconsistency import Inconsistency, Left, Repaired, RepairResult
from zonesched.services.audit import audit, audit_edges, repair_edges, repair_moves, repair_rows
from zonesched.services.audit.edge_comparison import Unlike
from zonesched.services.audit.repair_edges import EDGE_KINDS
from zonesched.services.audit.repair_rows import Repair
from zonesched.services.recovery import settle
from zonesched.services.zone import Zone
from zonesched.store import identity, locks, recovery
from zonesched.store.store import Transaction

MAX_ROUNDS = 5
WITH_ANOTHER = "repaired together with the inconsistency above"


class _OnlyShown(Exception):
    """Rolls back the transaction of a dry run."""


def run(zone: Zone, *, dry_run: bool = False, delete_unknown: bool = False) -> list[RepairResult]:
    """Repair what the audit finds, here and with each child; with `dry_run`, only report the actions.

    It ends the recovery of a zone that was restored, once all its neighbours were heard. `delete_unknown`:
    let agents end what no row has, which otherwise runs on.
    """
    unlike = audit_edges.with_other_places(zone, audit_edges.compare(zone))
    if not unlike and not audit.run(zone):
        return []
    results: list[RepairResult] = []

    def fn(tx: Transaction) -> None:
        results.clear()
        locks.recovery(tx)
        locks.everything(tx)
        repair = Repair(zone, tx, identity.next_change(tx), zone.clock.now())
        if recovery.is_under_way(tx):
            results.extend(settle.settle(zone, tx, repair.change, repair.now))
        if not recovery.is_under_way(tx):
            results.extend(
                repair_edges.repair_edge(repair, found) for found in sorted(unlike, key=_edge_turn)
            )
            results.extend(settle.adopt_again(zone, tx, repair.change, repair.now))
            results.extend(_repair_local(repair))
            results.extend(settle.delete_unknown(tx, delete=delete_unknown))
            # What the end of a recovery has left unclaimed counts once, as it is in the end.
            results[:] = {one.inconsistency: one for one in results}.values()
        if dry_run:
            raise _OnlyShown

    try:
        zone.store.write(fn)
    except _OnlyShown:
        return results
    zone.hosts.expire()
    zone.wake.boots()
    zone.wake.child_calls()
    return results


def _repair_local(repair: Repair) -> list[RepairResult]:
    """Repair in rounds: the repair of one kind can reveal another."""
    results: dict[Inconsistency, RepairResult] = {}
    for _ in range(MAX_ROUNDS):
        fresh = [
            found
            for found in audit.inconsistencies(
                repair.zone.clock, repair.zone.conf, repair.zone.uuid, repair.tx
            )
            if found not in results
        ]
        if not fresh:
            break
        for found in sorted(fresh, key=_turn):
            results[found] = _repair_one(repair, found)
    return list(results.values())


def _turn(found: Inconsistency) -> tuple[int, tuple[str, str, str]]:
    return (list(REPAIRS).index(found.kind), found.order)


def _edge_turn(found: Unlike) -> tuple[int, tuple[str, str, str]]:
    return (EDGE_KINDS.index(found.inconsistency.kind), found.inconsistency.order)


def _repair_one(repair: Repair, found: Inconsistency) -> RepairResult:
    try:
        action = REPAIRS[found.kind](repair, found)
    except repair_rows.CannotTell as doubt:
        return Left(found, str(doubt))
    return Repaired(found, action or WITH_ANOTHER)


REPAIRS: dict[str, Callable[[Repair, Inconsistency], str]] = {
    "claim_without_instance": repair_rows.keep_one_place,
    "reservation_counts": repair_rows.recount,
    "two_places": repair_rows.keep_one_place,
    "move_broken": repair_moves.end_broken,
    "parked_without_move": repair_moves.settle_parked,
    "instance_without_place": repair_rows.find_or_end,
    "hold_overdue": repair_rows.end_hold,
    "reservation_overdue": repair_rows.make_due,
    "move_overdue": repair_moves.make_due,
    "moves_differ": repair_moves.recount,
    "entry_used_twice": repair_rows.keep_entry_once,
    "used_differs": repair_rows.recompute_used,
    "capacity_differs": repair_rows.recompute_capacity,
    "over_capacity": repair_rows.note_excess,
    "group_place_unused": repair_rows.forget_group_place,
    "group_place_missing": repair_rows.gather_group,
    "group_split": repair_rows.gather_group,
    "group_host_overfull": repair_rows.thin_group,
    "action_open": repair_rows.end_actions,
    "commits_lost": repair_rows.leave_to_operator,
}
"""Repairs by kind of the zone's own inconsistencies, in the order in which they run."""
