"""Evacuation of hosts that are down: their instances are placed anew, each once nothing of it can run there.

One that was being shelved is offloaded instead. The old places keep their claims until the hosts' agents are
back and report that nothing is left, or until the hosts are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.errors import Conflict, Forbidden, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.move_steps import MoveState
from zonesched.model.placement import LIVING_STATUSES, PlacementState
from zonesched.services.hosts import moves_of_gone_hosts
from zonesched.services.hosts.hosts import existing
from zonesched.services.life import moving
from zonesched.services.life.leaving import EVACUATED, leave
from zonesched.services.life.shelving import note_offloaded
from zonesched.services.placing.reaper import end_holds
from zonesched.services.zone import Zone
from zonesched.store import agent_work, host_states, identity, instances, locks, moves, placements, services
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction

State = PlacementState
TO_EVACUATE = frozenset({State.CONFIRMED, State.RELEASING, State.PARKED})
"""States of the places on a host that an evacuation looks at; in a zone that recovers HELD as well."""


def evacuate_host(zone: Zone, user_id: str, host_id: str, *, fenced: bool) -> tuple[int, int]:
    """Take the instances from a host that is down; return how many left, and how many are moving.

    Those stay until their moves have ended; one that waits for this host in order to return to its old one
    returns, and one that was being shelved is offloaded. A resize that waits for its owner ends at the other
    host. `user_id`: of the actions on them. `fenced`: the operator's word that nothing runs there. Raises
    NotFound, and Conflict for a host that is up or not fenced.
    """
    now, is_recovering = zone.clock.now(), zone.restored.is_under_way

    def fn(tx: Transaction) -> tuple[int, int]:
        locks.promises(tx, host_ids=[host_id])
        states = TO_EVACUATE | {State.HELD} if is_recovering else TO_EVACUATE
        uuids = {place.uuid for place in agent_work.places_on(tx, host_id, states)}
        locks.instances(tx, sorted(uuids), [host_id])
        locks.hosts(tx, [host_id])
        existing(tx, host_id)
        _check(zone, tx, host_id, fenced)
        places = [p for p in agent_work.places_on(tx, host_id, states) if p.uuid in uuids]
        ended = frozenset(MoveState) if is_recovering else {MoveState.VERIFYING}
        moves_of_gone_hosts.end(tx, identity.next_change(tx), places, now, only_from=ended)
        if is_recovering:
            _end_expired(zone, tx, places, now)
        there = agent_work.places_on(tx, host_id, {State.CONFIRMED})
        releasing = agent_work.places_on(tx, host_id, {State.RELEASING})
        # What has arrived since it was locked for is only counted, if it moves.
        under_way = moves.living(tx, [p.uuid for p in there])
        there, releasing = ([p for p in some if p.uuid in uuids] for some in (there, releasing))
        _return(tx, releasing, now)
        note_offloaded(tx, identity.next_change(tx), releasing, now)
        return _leave(zone, tx, user_id, [p for p in there if p.uuid not in under_way]), len(under_way)

    counts = zone.store.write(fn)
    zone.wake.boots()
    return counts


def evacuate_server(zone: Zone, caller: Caller, uuid: str, *, fenced: bool) -> None:
    """Take one instance from its host, which is down, as `evacuate_host` does.

    Raises NotFound, Forbidden, and Conflict also for an instance that is on no host of this zone.
    """
    if caller.role is not Role.ADMIN:
        raise Forbidden("Only an admin of the zone evacuates servers.", field="evacuate")

    def fn(tx: Transaction) -> None:
        locks.promises(tx, uuids=[uuid])
        locks.instances(tx, [uuid])
        row = instances.read_by_uuid(tx, [uuid]).get(uuid)
        if row is None:
            raise NotFound("There is no such instance.", code="instance_not_found")
        places = [p for p in placements.read_by_uuid(tx, [uuid]) if p.number == row.attempt and _is_here(p)]
        if not places or row.status not in LIVING_STATUSES:
            raise Conflict(
                "The server is on no host of this zone: evacuate it in the zone that has it.",
                code="server_on_no_host",
                field="evacuate",
            )
        if moves.living(tx, [uuid]):
            raise Conflict("A move of the server has not ended yet.", code="server_moves", field="evacuate")
        (place,) = places
        assert isinstance(place.where, ClaimedHost)
        _check(zone, tx, place.where.host_id, fenced)
        if place.state is State.RELEASING:
            note_offloaded(tx, identity.next_change(tx), places, zone.clock.now())
        else:
            _leave(zone, tx, caller.user_id, places)

    zone.store.write(fn)
    zone.wake.boots()


def _is_here(place: Placement) -> bool:
    """Tell whether a present place is on a host of this zone, also where it is being shelved."""
    is_there = place.state in (State.CONFIRMED, State.RELEASING)
    return isinstance(place.where, ClaimedHost) and is_there


def _end_expired(zone: Zone, tx: Transaction, places: Sequence[Placement], now: float) -> None:
    """End holds that have expired: no background work does while a zone recovers."""
    expired = [p for p in places if p.state is State.HELD and p.hold_expires_at <= now]
    end_holds(tx, identity.next_change(tx), zone.uuid, expired, now)


def _return(tx: Transaction, releasing: Sequence[Placement], now: float) -> None:
    """Return servers to their old hosts whose moves have failed: nothing of them runs at these places."""
    keys = {place.key for place in releasing}
    for move in moves.living(tx, sorted({place.uuid for place in releasing})).values():
        if move.state is MoveState.RETURNING and (move.uuid, move.to_number) in keys:
            moving.come_back(tx, identity.next_change(tx), move, now)


def _leave(zone: Zone, tx: Transaction, user_id: str, places: Sequence[Placement]) -> int:
    change = identity.next_change(tx)
    moved = placements.move_all(tx, change, places, State.RELEASING, reason=EVACUATED)
    leave(tx, change, zone.uuid, moved, zone.clock.now(), user_id=user_id)
    return len(moved)


def _check(zone: Zone, tx: Transaction, host_id: str, fenced: bool) -> None:
    """Raise Conflict unless the host is down and nothing can run there."""
    host = host_states.read_ids(tx, [host_id])[host_id]
    agent = services.read_all(tx)[host.service_id]
    if not host.forced_down and zone.listening.hears(agent):
        raise Conflict(
            "The host is up: evacuate it once its agent has not been heard for service_down_time,"
            " or force it down.",
            code="host_is_up",
            field="evacuate",
        )
    left_s = 0.0 if fenced else zone.fences.left_s(tx, agent.id)
    if left_s is None or left_s > 0:
        by_itself = "" if left_s is None else f" Its agent ends them by itself within {left_s:.0f} s."
        raise Conflict(
            "Instances may still run on the host. Make sure that it is powered off or cut off for good,"
            f' then say so with "fenced": true (--fenced).{by_itself}',
            code="host_not_fenced",
            field="fenced",
        )
