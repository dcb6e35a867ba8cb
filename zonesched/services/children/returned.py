"""Return of a child: work that waited for it, with grown pauses, continues at once."""

from __future__ import annotations

from collections.abc import Set

from zonesched.model.decision_trace import ChildOutcome, DecisionTrace
from zonesched.services.select.faults import NOT_ALL_ANSWERED
from zonesched.services.state.wake import Wake
from zonesched.store import child_placements, instance_states, reservations
from zonesched.store.store import Store, Transaction
from zonesched.zones.child import Ready
from zonesched.zones.zone_manager import ZoneManager

_MISSED = (ChildOutcome.NOT_READY, ChildOutcome.UNREACHABLE)


def ready_ids(manager: ZoneManager) -> frozenset[str]:
    """List the ids of the children that are ready."""
    return frozenset(k.child.id for k in manager.snapshot() if isinstance(k.status, Ready))


def wake_waiting_for(store: Store, wake: Wake, child_ids: Set[str]) -> None:
    """Make pending calls to these children due, and boots whose last select had no answer from one of them.

    The answers to the calls move the placements that other boots wait for, which makes those boots due in
    turn. A boot spends one select on a child's return, however many processes find it: its trace then has
    that child's answer.
    """
    store.write(lambda tx: child_placements.make_calls_due(tx, sorted(child_ids)))
    store.write(lambda tx: instance_states.make_calls_due(tx, sorted(child_ids)))
    store.write(lambda tx: _make_boots_due(tx, child_ids))
    wake.child_calls()
    wake.sync()
    wake.boots()


def _make_boots_due(tx: Transaction, child_ids: Set[str]) -> None:
    for caller_id, reservation_id, trace in reservations.traces_of_open(tx, NOT_ALL_ANSWERED):
        if not child_ids.isdisjoint(_missed_children(trace)):
            reservations.wake(tx, caller_id, reservation_id)


def _missed_children(trace: DecisionTrace) -> frozenset[str]:
    return frozenset(child.child_id for child in trace.children if child.outcome in _MISSED)
