"""The steps that a boot's pending instances wait for: pure, counts of rows in, lines out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from zonesched.model.pending_step import NextStep, PendingStep
from zonesched.model.placement import PlacementState
from zonesched.services.select.faults import NOT_ALL_ANSWERED
from zonesched.store.pending_instances import PendingInstances
from zonesched.store.reservations import Reservation, ReservationState

State = PlacementState

_OF_PLACE = {
    State.INTENDED: NextStep.HOLD_ANSWER,
    State.CANCELLING: NextStep.CANCEL_ANSWER,
    State.CONFIRMING: NextStep.CONFIRM_ANSWER,
    State.CONFIRMED: NextStep.BUILD,
}
_WITHOUT_PLACE = frozenset({NextStep.BOOT_WORKER, NextStep.NEXT_SELECT})
_ORDER = list(NextStep)


def pending_steps(
    reservation: Reservation, pending: Sequence[PendingInstances], child_names: Mapping[str, str], now: float
) -> list[PendingStep]:
    """Count the pending instances of a boot by the step that they wait for, in the order of the steps.

    Those in children that `child_names` does not name are counted together with those on local hosts: only
    an admin may know where instances are.
    """
    counts: Counter[tuple[NextStep, str]] = Counter()
    for group in pending:
        step = _step(reservation, group.state, now)
        child_name = "" if step in _WITHOUT_PLACE else child_names.get(group.child_id, "")
        counts[step, child_name] += group.count
    ordered = sorted(counts, key=lambda line: (_ORDER.index(line[0]), line[1]))
    return [
        PendingStep(
            step,
            counts[step, child_name],
            child_name,
            due_at=reservation.next_work_at if step is NextStep.NEXT_SELECT else 0.0,
        )
        for step, child_name in ordered
    ]


def _step(reservation: Reservation, state: PlacementState, now: float) -> NextStep:
    if state is State.HELD:
        is_of_parent = reservation.state is ReservationState.SERVED
        return NextStep.PARENT_CONFIRM if is_of_parent else NextStep.OTHER_INSTANCES
    return _OF_PLACE.get(state) or _step_without_place(reservation, now)


def _step_without_place(reservation: Reservation, now: float) -> NextStep:
    is_postponed = reservation.state is ReservationState.OPEN and now < reservation.next_work_at
    if is_postponed and reservation.reason == NOT_ALL_ANSWERED:
        return NextStep.NEXT_SELECT
    return NextStep.BOOT_WORKER
