"""Pending child calls: recorded before they are sent, and repeated until the child has answered.

Each child has a bulkhead of its own. A child that hangs keeps only its own bulkhead busy until the call
times out; until then, no step calls it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from zonesched.model.placement import PlacementState
from zonesched.seams import Bulkhead, Failed
from zonesched.services.children.desired_calls import send_desired
from zonesched.services.placing import child_calls
from zonesched.services.zone import Zone
from zonesched.store import instance_states, placements
from zonesched.store.instance_states import Untold
from zonesched.store.outages import log_failed
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

State = PlacementState
CALLS_PER_STEP = 2000


class PendingCalls:
    """Pending calls to the children of one zone, made by one loop of this process."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    def step(self) -> float:
        """Send the due calls of each child without a call under way; return the pause until the next step."""
        zone = self._zone
        due, untold = self._due()
        # Apart from the bulkheads of the calls themselves, which this one thread waits for.
        calls = [
            (
                Bulkhead(f"{child_id}-due", 1),
                partial(self._tell, child_id, due[child_id], untold[child_id]),
            )
            for child_id in sorted(due.keys() | untold.keys())
        ]
        for outcome in zone.executor.gather(calls, zone.conf.retry_pause):
            if isinstance(outcome, Failed):
                log_failed("telling a child zone failed and will be repeated", outcome.error)
        # A full step may have left some out; each call moves its rows on, also where it fails.
        is_full = sum(map(len, untold.values())) == CALLS_PER_STEP
        return 0.0 if is_full else float(zone.conf.retry_pause)

    def _due(self) -> tuple[Mapping[str, list[Placement]], Mapping[str, list[Untold]]]:
        """Read the placements and the desired states to call each child about."""
        now = self._zone.clock.now()
        with self._lock:
            busy = sorted(self._busy)

        def fn(tx: Transaction) -> tuple[Sequence[Placement], Sequence[Untold]]:
            due = placements.due_calls(tx, now, busy, CALLS_PER_STEP)
            return due, instance_states.due_to_tell(tx, now, busy, CALLS_PER_STEP)

        due, untold = self._zone.store.read(fn)
        by_child: dict[str, list[Placement]] = defaultdict(list)
        for p in due:
            if isinstance(p.where, AskedChild):
                by_child[p.where.child_id].append(p)
        untold_by_child: dict[str, list[Untold]] = defaultdict(list)
        for one in untold:
            untold_by_child[one.child_id].append(one)
        return by_child, untold_by_child

    def _tell(self, child_id: str, due: Sequence[Placement], untold: Sequence[Untold]) -> None:
        with self._lock:
            if child_id in self._busy:
                return
            self._busy.add(child_id)
        try:
            child_calls.send_confirms(self._zone, [p for p in due if p.state is State.CONFIRMING])
            child_calls.send_cancels(self._zone, [p for p in due if p.state is State.CANCELLING])
            send_desired(self._zone, child_id, untold)
            child_calls.send_deletes(self._zone, [p for p in due if p.state is State.RELEASING])
        finally:
            with self._lock:
                self._busy.discard(child_id)
        self._zone.wake.boots()
