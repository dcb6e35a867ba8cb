"""Resizes of instances on local hosts: begun, confirmed and reverted as their stored desired states say.

The rest of a resize is a move (`moving`). While it waits for its confirmation both places are claimed, and
the old one keeps what the instance was, stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.model.desired_state import Desired
from zonesched.model.instance_flavor import InstanceFlavor, flavor_of
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.observed_state import Observed, Resizes
from zonesched.services.life import image_fit, moving
from zonesched.services.life.instance_requests import requests_of
from zonesched.services.life.observing import observe
from zonesched.services.life.wanting import Wanted
from zonesched.services.zone import Zone
from zonesched.store import host_states, instance_states, instances, moves, placements
from zonesched.store.instance_states import StoredState
from zonesched.store.moves import Move
from zonesched.store.placements import ClaimedHost
from zonesched.store.store import Transaction

_ON_THE_WAY = (MoveState.PLACING, MoveState.LEAVING, MoveState.ARRIVING)

LOST = "resize_lost"
"""Reason code of a resize whose move is lost before it was done."""


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
    if move is not None and move.kind is MoveKind.RESIZE and move.state in _ON_THE_WAY:
        # These rows were put back from a copy. It ends as its owner wants once it has arrived.
        return ""
    if move is None or move.state is not MoveState.VERIFYING:
        return "resize_not_open"
    if is_confirmed:
        moving.confirm(tx, change, move, now)
    else:
        moving.turn_back(tx, change, move, "", now)
    return ""


def end_without_move(tx: Transaction, change: int, uuid: str, now: float) -> None:
    """End the resize of an instance on a local host whose move is lost: its claim tells the flavor it has.

    The instance is locked. Where the claim fits both flavors, or neither, it has the one that is shown.
    """
    row, instance = instance_states.read(tx, [uuid])[uuid], instances.read_by_uuid(tx, [uuid])[uuid]
    state, desired, done = row.state, row.state.desired, row.state.observed.resizes
    if moves.living(tx, [uuid]) or not (done.is_open or desired.resizes != done):
        return
    where = placements.read_one(tx, uuid, instance.attempt).where
    spec = requests_of(tx, [uuid])[uuid]
    other = state.flavor if done.is_open else desired.flavor

    def is_claimed(flavor: InstanceFlavor) -> bool:
        sized = replace(spec, flavor=flavor_of(flavor, spec.flavor))
        return isinstance(where, ClaimedHost) and where.resources == sized.resources

    is_other = is_claimed(other) and not is_claimed(state.present_flavor)
    begun = desired.resizes.begun
    if done.is_open != is_other:
        done = Resizes(begun, begun - done.reverted, done.reverted)
    elif done.is_open:
        done = replace(done, reverted=done.begun - done.confirmed)
    if not state.is_pending:
        desired = replace(desired, generation=desired.generation + 1, resizes=done)
        instance_states.write(tx, [row.wanting(desired, now, in_child=False)], [uuid])
    reason = LOST if done == state.observed.resizes else ""
    seen = Observed(desired.generation, desired.power, reason, state.observed.rebuilds, done)
    observe(tx, change, [(uuid, seen)], {}, now)
