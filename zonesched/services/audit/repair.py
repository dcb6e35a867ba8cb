"""The repair: what the audit finds is mended in one transaction, and what cannot be told for sure is left.

Each kind goes in one direction (docs/operate.md): claims win over sums, a place where something may run over
one where nothing does, the child's word over ours of what runs there. Nothing that may run is ended
unless its owner has deleted it or has another one in its stead. What a worker has in hand is left to it.

The differences are found again within the transaction, so it mends what is wrong then; a second run finds
what the first has left, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zonesched.model.inconsistency import Inconsistency, Left, Mended, Repaired
from zonesched.services.audit import audit, audit_edges, repair_edges, repair_rows
from zonesched.services.audit.repair_edges import EDGE_KINDS
from zonesched.services.audit.repair_rows import Repair
from zonesched.services.zone import Zone
from zonesched.store import identity, locks
from zonesched.store.store import Transaction

MOST_ROUNDS = 5
WITH_ANOTHER = "mended together with what stands above it"


class _OnlyShown(Exception):
    """Ends the transaction of a dry run, so that nothing of it stays."""


def run(zone: Zone, *, dry_run: bool = False) -> list[Repaired]:
    """Mend what the audit finds, here and with each child; with `dry_run`, only say what would be done."""
    unlike = audit_edges.compare(zone)
    if not unlike and not audit.run(zone):
        return []
    results: list[Repaired] = []

    def fn(tx: Transaction) -> None:
        results.clear()
        locks.everything(tx)
        repair = Repair(zone, tx, identity.next_change(tx), zone.clock.now())
        results.extend(repair_edges.mend(repair, found) for found in unlike)
        results.extend(_mend_own(repair))
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


def _mend_own(repair: Repair) -> list[Repaired]:
    """Round after round: what is put right in one kind can bring another to light."""
    results: dict[Inconsistency, Repaired] = {}
    for _ in range(MOST_ROUNDS):
        fresh = [found for found in audit.differences(repair.zone, repair.tx) if found not in results]
        if not fresh:
            break
        for found in sorted(fresh, key=_turn):
            results[found] = _mend(repair, found)
    return list(results.values())


def _turn(found: Inconsistency) -> tuple[int, tuple[str, str, str]]:
    return (list(MENDERS).index(found.kind), found.order)


def _mend(repair: Repair, found: Inconsistency) -> Repaired:
    try:
        action = MENDERS[found.kind](repair, found)
    except repair_rows.CannotTell as doubt:
        return Left(found, str(doubt))
    return Mended(found, action or WITH_ANOTHER)


MENDERS: dict[str, Callable[[Repair, Inconsistency], str]] = {
    "claim_without_instance": repair_rows.settle_places,
    "reservation_counts": repair_rows.settle_count,
    "two_places": repair_rows.settle_places,
    "instance_without_place": repair_rows.find_or_end,
    "hold_overdue": repair_rows.end_hold,
    "reservation_overdue": repair_rows.make_due,
    "entry_used_twice": repair_rows.keep_entry_once,
    "used_differs": repair_rows.settle_used,
    "capacity_differs": repair_rows.settle_capacity,
    "over_capacity": repair_rows.note_excess,
    "group_place_unused": repair_rows.forget_group_place,
    "group_place_missing": repair_rows.gather_group,
    "group_split": repair_rows.gather_group,
    "group_host_overfull": repair_rows.thin_group,
}
"""By kind of the zone's own differences, in the order in which they are mended."""

KINDS = (*MENDERS, *EDGE_KINDS)


def left(repaired: Sequence[Repaired]) -> list[Left]:
    """What a repair could not mend."""
    return [one for one in repaired if isinstance(one, Left)]
