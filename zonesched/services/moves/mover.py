"""Worker of the moves: looks for hosts, claims them, and ends what agents do not report in time.

All other steps are taken in the transaction of the agent's report that they follow from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.place import LocalPlace
from zonesched.model.placement import PlacementState
from zonesched.model.request_spec import RequestSpec
from zonesched.services.life import moving
from zonesched.services.moves import new_host
from zonesched.services.moves.new_host import Choice
from zonesched.services.placing import group_policy
from zonesched.services.zone import Zone
from zonesched.store import claims, host_states, identity, instances, locks, moves, new_placements, placements
from zonesched.store.moves import Move
from zonesched.store.outages import log_failed
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction

BATCH = 25
"""Moves that are leased in one transaction; those of another project wait for no more of them."""

PAUSE_S = 2.0

_NO_HOST = {MoveKind.MIGRATION: "move_no_valid_host", MoveKind.RESIZE: "resize_no_valid_host"}


def work(zone: Zone) -> float:
    """Take a step with each move that is due; return the seconds until the next look."""
    now = zone.clock.now()
    found = zone.store.read(lambda tx: moves.due(tx, now, BATCH))
    for move in zone.store.write(partial(_lease, zone, found)) if found else ():
        try:
            _go_on(zone, move)
        except Exception as error:
            log_failed(f"a step of the move {move.id} failed and will be repeated", error)
    return 0.0 if len(found) == BATCH else PAUSE_S


def _lease(zone: Zone, found: Sequence[Move], tx: Transaction) -> list[Move]:
    """Take moves for this worker alone: whoever read one before can store nothing any more.

    Locked as for any step: a worker that claims for a move ends its transaction first. One whose step fails
    is due again after the lease, so that it keeps no other one waiting.
    """
    locks.instances(tx, [move.uuid for move in found])
    until = zone.clock.now() + zone.conf.boot_lease
    leased = [moves.step(tx, move, next_step_at=until) for move in found]
    return [move for move in leased if move is not None]


def _go_on(zone: Zone, move: Move) -> None:
    if move.state is MoveState.PLACING:
        _place(zone, move)
        return
    zone.store.write(partial(_end_overdue, zone, move))
    zone.wake.agents(zone.store.read(lambda tx: placements.read_by_uuid(tx, [move.uuid])))


def _place(zone: Zone, move: Move) -> None:
    """Claim a host for the move; without one it fails, and says which hosts were refused."""
    instance = zone.store.read(lambda tx: instances.read_by_uuid(tx, [move.uuid]))[move.uuid]
    spec = new_host.spec_of(zone, instance, move.kind)
    present = zone.store.read(lambda tx: placements.read_one(tx, move.uuid, move.from_number))
    assert isinstance(present.where, ClaimedHost)
    choice = new_host.choose(zone, instance, spec, move, present.where.host_id)
    for host_id in choice.host_ids:
        if zone.store.write(partial(_claim, zone, move, spec, choice, host_id)):
            zone.wake.agents([present])
            return
    zone.hosts.expire()
    zone.store.write(partial(_give_up, zone, move, choice))


def _give_up(zone: Zone, move: Move, choice: Choice, tx: Transaction) -> None:
    """End a move without a host; where offered hosts were taken meanwhile, look for others first."""
    locks.instances(tx, [move.uuid])
    now = zone.clock.now()
    if choice.host_ids and move.selects + 1 < zone.conf.max_attempts:
        moves.step(tx, move, selects=move.selects + 1, next_step_at=now)
    elif _is_present(tx, move):
        moving.fail(tx, identity.next_change(tx), move, _NO_HOST[move.kind], now, choice.why)


def _claim(zone: Zone, move: Move, spec: RequestSpec, choice: Choice, host_id: str, tx: Transaction) -> bool:
    """Claim this host as the new place; false where it has no room, or the group's policy forbids it."""
    locks.instances(tx, [move.uuid], [host_id])
    if not _is_present(tx, move):
        # Another worker goes on with it, or it has ended: nothing is left to look for.
        return True
    wanted = {move.uuid: LocalPlace(host_id)}
    places = placements.read_by_uuid(tx, [move.uuid])
    old = next(p for p in places if p.number == move.from_number)
    change, now = identity.next_change(tx), zone.clock.now()
    if group_policy.refused(tx, old.caller_id, spec.group, wanted, moving=move.uuid):
        return False
    if not claims.claim(tx, change, {host_id: 1}, spec.resources)[host_id]:
        return False
    number = 1 + max(p.number for p in places)
    due_at = now + zone.conf.instance_build_timeout
    new_placements.insert(tx, [_second(old, number, ClaimedHost(host_id, spec.resources), due_at)])
    host = host_states.read_one(tx, host_id)
    moves.step(
        tx,
        move,
        state=MoveState.LEAVING,
        to_number=number,
        dest_host=host.name if host is not None else "",
        selects=move.selects + 1,
        why=choice.why,
        updated_at=now,
        next_step_at=due_at,
    )
    return True


def _second(old: Placement, number: int, where: ClaimedHost, due_at: float) -> Placement:
    return Placement(
        uuid=old.uuid,
        number=number,
        caller_id=old.caller_id,
        reservation_id=old.reservation_id,
        where=where,
        state=PlacementState.HELD,
        reason="",
        hold_expires_at=due_at,
        retained_until=old.retained_until,
    )


def _is_present(tx: Transaction, move: Move) -> bool:
    """Tell whether nobody has taken a step with the move since it was read."""
    stored = moves.living(tx, [move.uuid]).get(move.uuid)
    return stored is not None and (stored.id, stored.steps) == (move.id, move.steps)


def _may_be_early(zone: Zone) -> bool:
    """Tell whether agents may not have called again since the start, and told what they have built.

    So it is after a time in which the zone did not listen, and they have their whole time again.
    """
    silent_s = min(zone.conf.service_down_time, zone.conf.instance_build_timeout)
    is_new = zone.clock.monotonic() - zone.opened_at < silent_s
    build_s = zone.conf.instance_build_timeout
    return bool(is_new or zone.listening.stretched(build_s) > build_s)


def _end_overdue(zone: Zone, move: Move, tx: Transaction) -> None:
    """Go on without a report: none came in time, or a host was removed."""
    locks.instances(tx, [move.uuid])
    if not _is_present(tx, move):
        return
    change, now = identity.next_change(tx), zone.clock.now()
    match move.state:
        case MoveState.LEAVING | MoveState.ARRIVING if _may_be_early(zone):
            # It may have left, or run there, and its agent gets time to say so.
            moves.step(tx, move, next_step_at=now + moving.LOOK_AGAIN_S)
        case MoveState.LEAVING:
            moving.fail(tx, change, move, "move_not_left_in_time", now)
        case MoveState.ARRIVING:
            moving.turn_back(tx, change, move, "move_timeout", now)
        case MoveState.VERIFYING:
            # Its owner decides, or the zone where that is.
            moves.step(tx, move, next_step_at=math.inf)
        case _:
            _, new = moving.places_of(tx, move)
            if new.state is PlacementState.RELEASED:
                moving.come_back(tx, change, move, now)
            else:
                moves.step(tx, move, next_step_at=now + moving.LOOK_AGAIN_S)
