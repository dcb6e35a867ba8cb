"""Moves from and to a host that is gone for good that nothing else ends.

That is a resize that waits for its owner, and in a zone that recovers any move: there no background work
acts. A server that was on its way to the host is at its old place again, and one on its way from it stays at
the new one. The end of the recovery tells whether it was found there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zonesched.model.move_steps import MoveState
from zonesched.model.placement import PlacementState
from zonesched.services.life import moving, resizing
from zonesched.services.life.leaving import EVACUATED
from zonesched.store import moves
from zonesched.store.moves import Move
from zonesched.store.placements import Placement
from zonesched.store.store import Transaction


def end(
    tx: Transaction, change: int, there: Sequence[Placement], now: float, *, only_from: Collection[MoveState]
) -> None:
    """End the moves in these states from or to these places, those on the host; the instances are locked."""
    keys = {place.key for place in there}
    for move in moves.living(tx, sorted({place.uuid for place in there})).values():
        if move.state not in only_from:
            continue
        is_to_it = (move.uuid, move.to_number) in keys
        if is_to_it or (move.uuid, move.from_number) in keys:
            _end(tx, change, move, now, is_to_it=is_to_it)
            resizing.end_without_move(tx, change, move.uuid, now)


def _end(tx: Transaction, change: int, move: Move, now: float, *, is_to_it: bool) -> None:
    if move.state in (MoveState.PLACING, MoveState.LEAVING):
        moving.fail(tx, change, move, EVACUATED, now)
        return
    is_free = moving.places_of(tx, move)[1].state is PlacementState.RELEASED
    if not is_to_it and not is_free:
        moving.stay(tx, change, move, EVACUATED, now)
        return
    back: Move | None = move
    if move.state is not MoveState.RETURNING:
        back = moving.turn_back(tx, change, move, EVACUATED, now)
    if back is not None and back.is_living:
        moving.come_back(tx, change, back, now)
