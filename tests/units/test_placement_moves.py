"""The table of legal moves agrees with itself, with the sets of states, and with the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import placement_moves
import pytest

from zonesched.model.placement import (
    CLAIMING,
    FINAL,
    HOLDS_INSTANCE,
    OCCUPYING,
    PROMISED,
    TO_BUILD,
    UNANSWERED,
    UNBUILT,
    UNCONFIRMED,
    UNFINISHED,
    WANTED,
    BuildState,
    PlacementState,
)
from zonesched.model.placement_moves import (
    CHILD_MOVES,
    CHILD_STARTS,
    LOCAL_MOVES,
    LOCAL_STARTS,
    Move,
    next_state,
)
from zonesched.store import tables

State = PlacementState
FLOW = Path(__file__).parents[2] / "docs" / "flow.md"
Starts = Mapping[PlacementState, str]
Moves = Mapping[Move, str]
LOCAL = (LOCAL_STARTS, LOCAL_MOVES)
CHILD = (CHILD_STARTS, CHILD_MOVES)


def reachable(starts: Starts, moves: Moves) -> set[PlacementState]:
    found: set[PlacementState] = set()
    new = set(starts)
    while new:
        found |= new
        new = {move.after for move in moves if move.before in found} - found
    return found


def test_the_page_shows_the_moves_of_the_code() -> None:
    page = FLOW.read_text(encoding="utf-8")
    assert "<!-- placement moves -->" in page
    assert page == placement_moves.page_with_moves(page), "run python docs/placement_moves.py"


def test_every_state_is_reached_in_a_child_and_on_a_local_host_those_that_wait_for_no_child() -> None:
    assert reachable(*CHILD) == set(State) - {State.PARKED}
    assert reachable(*LOCAL) == (set(State) - UNANSWERED - {State.INTENDED}) | {State.RELEASING}


@pytest.mark.parametrize("starts_and_moves", [LOCAL, CHILD], ids=["local", "child"])
def test_every_state_but_the_final_ones_has_a_way_to_a_final_one(
    starts_and_moves: tuple[Starts, Moves],
) -> None:
    starts, moves = starts_and_moves
    for state in reachable(starts, moves):
        ends = reachable({state: ""}, moves) & FINAL
        assert ends, state
        assert state not in FINAL or ends == {state}


@pytest.mark.parametrize("moves", [LOCAL_MOVES, CHILD_MOVES], ids=["local", "child"])
def test_no_move_returns_to_an_earlier_state_but_that_of_a_failed_move(moves: Moves) -> None:
    onwards = {move: why for move, why in moves.items() if move != Move(State.PARKED, State.CONFIRMED)}

    for move in onwards:
        assert move.before not in reachable({move.after: ""}, onwards)


def test_no_placement_takes_resources_again_after_it_gave_them_back() -> None:
    assert not [move for move in LOCAL_MOVES if move.before not in CLAIMING and move.after in CLAIMING]


def test_a_placement_that_may_have_the_instance_is_never_returned_to() -> None:
    for moves in (LOCAL_MOVES, CHILD_MOVES):
        assert not [move for move in moves if move.before not in OCCUPYING and move.after in OCCUPYING]


@pytest.mark.parametrize("state", list(State))
def test_every_answer_of_a_child_that_ends_a_call_is_a_legal_move(state: PlacementState) -> None:
    for answer in BuildState:
        after = next_state(state, answer)
        assert after is state or Move(state, after) in CHILD_MOVES


def test_the_sets_of_states_fit_together() -> None:
    assert set(State) == UNFINISHED | FINAL
    assert not UNFINISHED & FINAL
    assert PROMISED < WANTED < OCCUPYING < UNFINISHED
    assert CLAIMING - {State.PARKED, State.RELEASING} < PROMISED
    assert TO_BUILD | {State.PARKED} == HOLDS_INSTANCE
    assert CLAIMING < UNFINISHED
    assert UNCONFIRMED == OCCUPYING - HOLDS_INSTANCE
    after_a_confirm = {move.after for move in CHILD_MOVES if move.before in {State.HELD, State.CONFIRMING}}
    assert after_a_confirm & WANTED == TO_BUILD
    assert not UNBUILT & PROMISED


def test_the_placements_in_motion_are_those_with_work_left_but_for_the_confirmed() -> None:
    left_out = re.findall(r"'(\w+)'", str(tables.PLACE_IS_IN_MOTION))

    assert {PlacementState(state) for state in left_out} == FINAL | {PlacementState.CONFIRMED}
