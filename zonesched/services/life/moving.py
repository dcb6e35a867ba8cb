"""Steps of a move, each with all its consequences in the transaction of the caller.

The instances are locked, and the move was read under the lock. Every step follows from rows alone, so that
a process that dies between two steps leaves rows from which another one goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from zonesched.conf import Conf
from zonesched.model.decision_trace import DecisionTrace
from zonesched.model.desired_state import InstanceState
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.observed_state import MoveCounts, Observed
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.life.observing import observe
from zonesched.store import inbound, instance_actions, instance_states, instances, moves, placements
from zonesched.store.instances import Instance
from zonesched.store.moves import Move
from zonesched.store.placements import Placement
from zonesched.store.store import Transaction

State = PlacementState
SHELVED = "move_shelved"
LOOK_AGAIN_S = 10.0
"""Pause between two looks at a move that waits for an agent."""


def switch(conf: Conf, tx: Transaction, change: int, move: Move, now: float) -> Move | None:
    """Make the new place the present one: the old agent has stopped the instance and keeps it.

    Where the hold of the new place has ended meanwhile, the move fails, and the old agent goes on.
    """
    old, new = places_of(tx, move)
    if new.state is not State.HELD:
        return fail(tx, change, move, "move_not_left_in_time", now)
    placements.move(tx, change, old, State.PARKED)
    placements.move(tx, change, new, State.CONFIRMED)
    _set_present(tx, change, old, new, now)
    due_at = now + conf.instance_build_timeout
    return moves.step(tx, move, state=MoveState.ARRIVING, updated_at=now, next_step_at=due_at)


def arrive(tx: Transaction, change: int, move: Move, built: Observed, now: float) -> Move | None:
    """Go on after the instance was built at the new place: its agent releases the old one.

    The old place of a resize is kept until its owner has confirmed or reverted that. Where rows were put back
    from a copy, the owner may have done so already.
    """
    if move.kind is MoveKind.RESIZE:
        state = instance_states.read(tx, [move.uuid])[move.uuid].state
        asked = state.desired.resizes
        resizes = replace(state.observed.resizes, begun=asked.begun)
        generation = max(move.generation, built.generation)
        if asked != resizes:
            # The end of the resize reaches the last generation.
            generation = min(generation, state.desired.generation - 1)
        observe(tx, change, [(move.uuid, replace(built, generation=generation, resizes=resizes))], {}, now)
        arrived = moves.step(tx, move, state=MoveState.VERIFYING, updated_at=now, next_step_at=math.inf)
        if arrived is None or asked == resizes:
            return arrived
        if asked.confirmed > resizes.confirmed:
            return confirm(tx, change, arrived, now)
        return turn_back(tx, change, arrived, "", now)
    old, _ = places_of(tx, move)
    placements.move(tx, change, old, State.RELEASING, reason="moved")
    return end(tx, change, move, MoveState.DONE, "", now)


def confirm(tx: Transaction, change: int, move: Move, now: float) -> Move | None:
    """End a resize at the new place; the old one is released by its agent."""
    old, _ = places_of(tx, move)
    placements.move(tx, change, old, State.RELEASING, reason="moved")
    return end(tx, change, move, MoveState.DONE, "", now)


def lose(tx: Transaction, change: int, move: Move) -> Move | None:
    """Give up the old place of a resized instance that its new host has lost; its owner sees an error.

    Return None where an earlier report of the same call has done so.
    """
    old, _ = places_of(tx, move)
    if old.state is not State.PARKED:
        return None
    return move if placements.move(tx, change, old, State.RELEASING, reason="moved") else None


def turn_back(tx: Transaction, change: int, move: Move, reason: str, now: float) -> Move | None:
    """Leave the new place; the instance returns once nothing of it is left there.

    `reason`: why it was not built; "" where it was, and its resize is reverted.
    """
    old, new = places_of(tx, move)
    if not new.is_fetched:
        # No agent can have it.
        placements.move(tx, change, new, State.RELEASED, reason=reason)
        _set_present(tx, change, new, old, now)
        return come_back(tx, change, replace(move, reason=reason), now)
    placements.move(tx, change, new, State.RELEASING, reason=reason or "resize_reverted")
    _set_present(tx, change, new, old, now)
    due_at = now + LOOK_AGAIN_S
    return moves.step(tx, move, state=MoveState.RETURNING, reason=reason, updated_at=now, next_step_at=due_at)


def come_back(tx: Transaction, change: int, move: Move, now: float) -> Move | None:
    """Make the old place an ordinary one again: nothing is left at the new one."""
    old, _ = places_of(tx, move)
    placements.move(tx, change, old, State.CONFIRMED)
    return end(tx, change, move, MoveState.FAILED if move.reason else MoveState.REVERTED, move.reason, now)


def stay(tx: Transaction, change: int, move: Move, reason: str, now: float) -> Move | None:
    """End a move at its new place, and give up the old one, whose host is gone for good."""
    if move.state is MoveState.ARRIVING:
        seen = instance_states.read(tx, [move.uuid])[move.uuid].state.observed
        arrived = arrive(tx, change, move, seen, now)
        if arrived is None or not arrived.is_living:
            return arrived
        move = arrived
    old, new = places_of(tx, move)
    placements.move(tx, change, old, State.RELEASING, reason="moved")
    if move.state is MoveState.RETURNING:
        placements.move(tx, change, new, State.CONFIRMED, repair=True)
        _set_present(tx, change, old, new, now)
    return end(tx, change, move, MoveState.FAILED, reason, now)


def fail(
    tx: Transaction, change: int, move: Move, reason: str, now: float, why: DecisionTrace | None = None
) -> Move | None:
    """End a move that has not left its old place."""
    if move.to_number:
        _, new = places_of(tx, move)
        if new.state is State.HELD:
            placements.move(tx, change, new, State.GONE, reason=reason)
    return end(tx, change, replace(move, why=why or move.why), MoveState.FAILED, reason, now)


def abandon(tx: Transaction, change: int, uuids: Sequence[str], now: float) -> None:
    """End the living moves of instances that are about to leave their hosts for good, being shelved.

    The present place is then the only one where anything may still run.
    """
    for move in moves.living(tx, uuids).values():
        if move.state in (MoveState.PLACING, MoveState.LEAVING):
            fail(tx, change, move, SHELVED, now)
            continue
        old, new = places_of(tx, move)
        placements.move(tx, change, old, State.RELEASING, reason="moved")
        if move.state is MoveState.RETURNING:
            _set_present(tx, change, old, new, now)
        end(tx, change, move, MoveState.FAILED, SHELVED, now)


def places_of(tx: Transaction, move: Move) -> tuple[Placement, Placement]:
    """Read the old and the new place."""
    numbered = {p.number: p for p in placements.read_by_uuid(tx, [move.uuid])}
    return numbered[move.from_number], numbered[move.to_number]


def _set_present(tx: Transaction, change: int, before: Placement, after: Placement, now: float) -> None:
    """Note another place as the present one of a built instance, also for the parent that sent it."""
    uuid = after.uuid
    build = inbound.of_place(tx, before.caller_id, uuid, before.number)
    if build is not None:
        inbound.update(tx, [replace(build, number=after.number)])
    instances.set_attempts(tx, change, {uuid: after.number}, InstanceStatus.ACTIVE, now)


def end(tx: Transaction, change: int, move: Move, state: MoveState, reason: str, now: float) -> Move | None:
    """End a move whose places are as they are to stay, and what follows from its end."""
    ended = moves.step(tx, move, state=state, reason=reason, updated_at=now)
    if ended is None:
        return None
    if move.kind is MoveKind.MIGRATION:
        instance_actions.end_one(tx, move.uuid, move.action, reason, now)
    row = instance_states.read(tx, [move.uuid])[move.uuid]
    begun = row.state.moves.begun
    instance_states.write(tx, [row.moving(MoveCounts(begun, begun))], [move.uuid])
    instances.touch(tx, change, [move.uuid], now)
    if move.kind is MoveKind.RESIZE and reason != SHELVED:
        observe(tx, change, [(move.uuid, _after_resize(row.state, state, reason))], {}, now)
    return ended


def _after_resize(state: InstanceState, ended_as: MoveState, reason: str) -> Observed:
    """Return the observed state once a resize has ended: all is as it was unless it was confirmed."""
    if reason:
        return state.refused(reason)
    done = state.observed.resizes
    if ended_as is MoveState.DONE:
        done = replace(done, confirmed=done.confirmed + 1)
    else:
        done = replace(done, reverted=done.reverted + 1)
    power = state.observed.power if ended_as is MoveState.DONE else state.desired.power
    return Observed(state.desired.generation, power, rebuilds=state.observed.rebuilds, resizes=done)


def begin(tx: Transaction, change: int, instance: Instance, move: Move, now: float) -> None:
    """Store a new move of a built instance without a living one."""
    moves.insert(tx, move)
    stored = instance_states.read(tx, [instance.uuid])
    row = stored.get(instance.uuid) or instance_states.StoredState(
        instance.uuid, built_at=instance.updated_at
    )
    begun = row.state.moves.begun + 1
    instance_states.write(tx, [row.moving(MoveCounts(begun, begun - 1))], stored.keys())
    instances.touch(tx, change, [instance.uuid], now)
