"""Resizes of instances on local hosts: begun, confirmed and reverted as their stored desired states say.

The rest of a resize is a move (`moving`). While it waits for its confirmation both places are claimed, and
the old one keeps what the instance was, stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zonesched.model.desired_state import Desired
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.services.life import image_fit, moving
from zonesched.services.life.observing import observe
from zonesched.services.life.wanting import Wanted
from zonesched.services.zone import Zone
from zonesched.store import host_states, moves
from zonesched.store.instance_states import StoredState
from zonesched.store.moves import Move
from zonesched.store.placements import ClaimedHost
from zonesched.store.store import Transaction


def carry_on(
    zone: Zone,
    tx: Transaction,
    change: int,
    wanted: Sequence[Wanted],
    before: Mapping[str, StoredState],
    now: float,
) -> None:
    """Act on the resizes among desired states that were just stored.

    The instances are locked. One in a child zone is the child's to resize. What cannot be done here is
    refused: the instance stays as it is.
    """
    reasons: dict[str, str] = {}
    for one in wanted:
        if not isinstance(one.place.where, ClaimedHost):
            continue
        known = before[one.instance.uuid].state.desired if one.instance.uuid in before else Desired()
        had, asked = known.resizes, one.desired.resizes
        if asked.begun > had.begun:
            reasons[one.instance.uuid] = _begin(zone, tx, change, one, now)
        elif asked.confirmed > had.confirmed or asked.reverted > had.reverted:
            is_confirmed = asked.confirmed > had.confirmed
            reasons[one.instance.uuid] = _settle(tx, change, one, is_confirmed=is_confirmed, now=now)
    observe(tx, change, image_fit.refused(tx, reasons), {}, now)


def _begin(zone: Zone, tx: Transaction, change: int, one: Wanted, now: float) -> str:
    """Write the move of a resize, for which a worker looks for a host; return why it cannot be."""
    assert isinstance(one.place.where, ClaimedHost)
    if moves.living(tx, [one.instance.uuid]):
        return "move_under_way"
    host = host_states.read_one(tx, one.place.where.host_id)
    move = Move(
        id=zone.clock.new_uuid(),
        uuid=one.instance.uuid,
        kind=MoveKind.RESIZE,
        state=MoveState.PLACING,
        from_number=one.place.number,
        source_host=host.name if host is not None else "",
        asked_host="",
        action=0,
        generation=one.desired.generation,
        created_at=now,
        updated_at=now,
        next_step_at=now,
    )
    moving.begin(tx, change, one.instance, move, now)
    return ""


def _settle(tx: Transaction, change: int, one: Wanted, *, is_confirmed: bool, now: float) -> str:
    """Leave one of the two places of a resized instance; return why that cannot be done."""
    move = moves.living(tx, [one.instance.uuid]).get(one.instance.uuid)
    if move is None or move.state is not MoveState.VERIFYING:
        return "resize_not_open"
    if is_confirmed:
        moving.confirm(tx, change, move, now)
    else:
        moving.turn_back(tx, change, move, "", now)
    return ""
