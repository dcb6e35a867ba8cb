"""The rows that the seeds are to meet, made from the tables of the package: a row that is added there counts.

A row is named by what has it and by its step; `CALLED_IN` says with which call an answer comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zonesched.compute.machine import ReportState
from zonesched.model.action_table import LEGAL_IN, Action
from zonesched.model.desired_state import Result
from zonesched.model.move_steps import STEPS
from zonesched.model.placement import UNANSWERED, BuildState, InstanceStatus, PlacementState
from zonesched.model.placement_moves import CHILD_MOVES, CHILD_STARTS, LOCAL_MOVES, LOCAL_STARTS
from zonesched.store.reservations import ReservationState
from zonesched.zones.child import Offline, Ready, Waiting

CALLED_IN: Mapping[str, PlacementState] = {
    "build": PlacementState.INTENDED,
    "confirm": PlacementState.CONFIRMING,
    "cancel": PlacementState.CANCELLING,
    "delete": PlacementState.RELEASING,
}
"""The state of a place, by the call about it."""

IMPOSSIBLE: Mapping[str, str] = {
    **{
        f"answer: releasing, {state.value}": (
            "test_a_place_that_is_released_goes_by_the_end_of_its_delete_alone"
        )
        for state in BuildState
        if state is not BuildState.GONE
    },
    "inbound: confirm, held": "test_a_place_that_its_parent_knows_to_be_held_is_not_held_after_its_confirm",
    "inbound: cancel, held": "test_no_place_is_held_after_its_cancel",
    "inbound: cancel, confirmed": "test_a_parent_cancels_nothing_that_it_has_confirmed",
    "action: migrate, superseded": "test_a_migration_ends_with_its_move_alone",
    **{
        f"action: {action.recorded_as}, superseded": (
            "test_no_action_is_accepted_before_the_end_of_one_that_is_never_superseded"
        )
        for action in (
            Action.REBUILD,
            Action.SHELVE,
            Action.RESIZE,
            Action.CONFIRM_RESIZE,
            Action.REVERT_RESIZE,
        )
    },
}
"""Rows that no run can meet, each with the test that shows it."""


def rows() -> Mapping[str, str]:
    """Return all rows, each with what it means, in the order of the tables."""
    return {name: meaning for name, meaning in _every_row() if name not in IMPOSSIBLE}


def _every_row() -> Iterator[tuple[str, str]]:
    for kind, starts, moves in (("host", LOCAL_STARTS, LOCAL_MOVES), ("child", CHILD_STARTS, CHILD_MOVES)):
        yield from ((f"{kind} place: {state.value}", why) for state, why in starts.items())
        for move, why in moves.items():
            yield f"{kind} place: {move.before.value} -> {move.after.value}", why
    for place in sorted({PlacementState.INTENDED, *UNANSWERED}, key=lambda state: state.value):
        for answer in BuildState:
            yield answer_row(place, answer.value), "an answer that came back to who had asked"
    for call in CALLED_IN:
        for answer in BuildState if call != "delete" else ():
            yield f"inbound: {call}, {answer.value}", "what a zone has answered to its parent"
    yield from ((f"instance: {status.value}", "its status") for status in InstanceStatus)
    yield from ((f"reservation: {state.value}", "its state") for state in ReservationState)
    for action in dict.fromkeys(action.recorded_as for action in LEGAL_IN):
        for result in Result:
            yield f"action: {action}, {result.value}", "how it has ended"
    yield from ((f"move: {step.before.value} -> {step.after.value}", why) for step, why in STEPS.items())
    yield from ((f"agent: {state.value}", "what it has reported") for state in ReportState)
    yield from (
        (f"child zone: {kind.__name__}", "how its parent knows it") for kind in (Waiting, Ready, Offline)
    )


def answer_row(place: PlacementState, answer: str) -> str:
    """Return the name of a row of answers."""
    return f"answer: {place.value}, {answer}"
