"""The legal moves of a placement between states, each with its cause.

INTENDED, CONFIRMING, CANCELLING and RELEASING mean that a call to the child was decided and its answer is not
known yet. Of these a placement on a local host has only RELEASING: a build that was not reported in time, a
shelved or evacuated instance, or the place that a move has left keeps its claim until its agent reports that
nothing of it is left. PARKED is the old place of a move, on a local host alone: stopped and kept until the
new one runs.

`store.placements` refuses any other move. Only a repair may write a state that no move leads to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zonesched.model.placement import BuildState, PlacementState

_S = PlacementState


class Move(NamedTuple):
    """One step from a state to the next."""

    before: PlacementState
    after: PlacementState


class IllegalMove(AssertionError):
    """A placement was about to make an illegal move: a defect of this program, never of its input."""


LOCAL_STARTS: Mapping[PlacementState, str] = {
    _S.HELD: "resources were claimed",
    _S.CONFIRMED: "claimed and confirmed in one transaction",
    _S.FAILED: "no free slot, or refused by the group policy",
}
"""States in which a placement on a local host is written, and when."""

CHILD_STARTS: Mapping[PlacementState, str] = {
    _S.INTENDED: "the child is about to be asked",
    _S.FAILED: "the child was removed, or refused by the group policy",
}
"""States in which a placement in a child is written, and when."""

LOCAL_MOVES: Mapping[Move, str] = {
    Move(_S.HELD, _S.CONFIRMED): "confirmed",
    Move(_S.HELD, _S.GONE): "cancelled, or the hold expired",
    Move(_S.CONFIRMED, _S.FAILED): "the build failed",
    Move(_S.CONFIRMED, _S.PARKED): "stopped for a move, whose new place is CONFIRMED with this",
    Move(_S.PARKED, _S.CONFIRMED): "the move has failed, and nothing is left at its new place",
    Move(_S.PARKED, _S.RELEASING): "the instance runs at the new place",
    Move(_S.PARKED, _S.RELEASED): "deleted",
    Move(_S.CONFIRMED, _S.RELEASED): "deleted, lost by its host, or ended there by itself",
    Move(_S.CONFIRMED, _S.RELEASING): "shelved, evacuated, not reported in time, or left by a failed move",
    Move(_S.RELEASING, _S.RELEASED): "its agent says that nothing is left, or its host was removed",
}
"""All moves of a placement on a local host, and when each happens."""

CHILD_MOVES: Mapping[Move, str] = {
    Move(_S.INTENDED, _S.HELD): "the child answered `held`",
    Move(_S.INTENDED, _S.CONFIRMING): "the children hold all of a boot, and its confirm was decided",
    Move(_S.INTENDED, _S.FAILED): "the child answered `failed`",
    Move(_S.INTENDED, _S.CANCELLING): "not answered, or not wanted any more",
    Move(_S.INTENDED, _S.GONE): "the child answered `gone`, or was removed",
    Move(_S.HELD, _S.CONFIRMING): "a confirm was decided",
    Move(_S.HELD, _S.CANCELLING): "cancelled, or the hold expired",
    Move(_S.HELD, _S.GONE): "the child was removed",
    Move(_S.CONFIRMING, _S.CONFIRMED): "the child answered or reported `confirmed`",
    Move(_S.CONFIRMING, _S.GONE): "the child answered `gone`: its hold had expired",
    Move(_S.CONFIRMING, _S.FAILED): "the child answered or reported `failed`",
    Move(_S.CONFIRMING, _S.RELEASING): "deleted, or the child reported an ERROR",
    Move(_S.CONFIRMING, _S.RELEASED): "deleted in the child, or the child was removed",
    Move(_S.CONFIRMED, _S.FAILED): "the child reported that the build failed",
    Move(_S.CONFIRMED, _S.RELEASING): "deleted, or the child reported an ERROR or the end of a shelve",
    Move(_S.CONFIRMED, _S.RELEASED): "deleted in the child, or the child was removed",
    Move(_S.CANCELLING, _S.GONE): "the child answered `gone`, was removed, or the hold expired",
    Move(_S.CANCELLING, _S.FAILED): "the child answered `failed`",
    Move(_S.CANCELLING, _S.RELEASING): "the child answered `confirmed`: a confirm had come first",
    Move(_S.RELEASING, _S.RELEASED): "the child answered the delete, or was removed",
}
"""All moves of a placement in a child, and when each happens."""

AFTER_ANSWER: Mapping[tuple[PlacementState, BuildState], PlacementState] = {
    (_S.INTENDED, BuildState.HELD): _S.HELD,
    (_S.INTENDED, BuildState.FAILED): _S.FAILED,
    (_S.INTENDED, BuildState.GONE): _S.GONE,
    (_S.CONFIRMING, BuildState.CONFIRMED): _S.CONFIRMED,
    (_S.CONFIRMING, BuildState.FAILED): _S.FAILED,
    (_S.CONFIRMING, BuildState.GONE): _S.GONE,
    (_S.CANCELLING, BuildState.GONE): _S.GONE,
    (_S.CANCELLING, BuildState.FAILED): _S.FAILED,
    # An earlier confirm arrived first: the instance exists, so it has to be deleted.
    (_S.CANCELLING, BuildState.CONFIRMED): _S.RELEASING,
    (_S.RELEASING, BuildState.GONE): _S.RELEASED,
}
"""State to which an answer of its child moves a placement; any other answer moves it nowhere."""


def next_state(state: PlacementState, answer: BuildState) -> PlacementState:
    """Return the state to which a child's answer moves a placement; the same state when the call goes on."""
    return AFTER_ANSWER.get((state, answer), state)
