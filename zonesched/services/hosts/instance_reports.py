"""Agents' reports on instances; a report counts only for the present placement of its instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zonesched.model.action_reasons import MESSAGES, for_parent
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.move_steps import MoveState
from zonesched.model.observed_state import Observed
from zonesched.model.placement import LIVING_STATUSES, InstanceStatus, PlacementState
from zonesched.services.life import moving
from zonesched.services.life.observing import UNSURPRISING, observe_on_hosts
from zonesched.services.life.shelving import note_offloaded
from zonesched.services.placing import build_retry
from zonesched.services.zone import Zone
from zonesched.store import (
    agent_work,
    hosts,
    identity,
    instances,
    moves,
    placements,
    reservations,
    services,
)
from zonesched.store.instances import Instance
from zonesched.store.moves import Move
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.services import Owned
from zonesched.store.store import Transaction


@dataclass(frozen=True)
class _Built:
    """Report of an instance that runs as it should."""

    uuid: str
    host_id: str


@dataclass(frozen=True)
class _Ended:
    """Report of an instance that should run but does not: its placement and the reason."""

    placement: Placement
    reason: str


@dataclass(frozen=True)
class Taken:
    """Consequences of reports. `any_ended`: of an instance; `replaced`: those with work at another place."""

    any_ended: bool
    replaced: frozenset[str]


def take(zone: Zone, tx: Transaction, service: Owned, reports: Sequence[AgentReport]) -> Taken:
    """Write a service's reports on its hosts; return what follows from them.

    First come those that moves wait for. Raises NotFound and Conflict for a service that was removed or
    registered since: what its earlier agent has seen tells nothing of what its successor runs.
    """
    services.keep(tx, service)
    failed_uuids = [reported.uuid for reported in reports if reported.state is AgentState.ERROR]
    build_retry.lock_with_alternates(tx, [reported.uuid for reported in reports], failed_uuids)
    replaced = _release(tx, service, reports, zone.clock.now())
    reports, moved = _without_moves(zone, tx, service, reports)
    replaced |= moved
    running = _should_run(tx, service, reports)
    built: list[_Built] = []
    failed: list[_Ended] = []
    ended: list[_Ended] = []
    seen: list[tuple[str, Observed]] = []
    for reported in reports:
        if (reported.uuid, reported.attempt) not in running:
            continue
        instance, place, host_id = running[reported.uuid, reported.attempt]
        match reported.state:
            case AgentState.ACTIVE:
                if instance.status is InstanceStatus.BUILD:
                    built.append(_Built(reported.uuid, host_id))
                if reported.observed != UNSURPRISING:
                    seen.append((reported.uuid, reported.observed))
            case AgentState.ERROR if instance.status is InstanceStatus.ACTIVE:
                ended.append(_Ended(place, reported.reason or "ended_on_host"))
            case AgentState.ERROR:
                failed.append(_Ended(place, reported.reason or "build_failed"))
            case AgentState.GONE:
                ended.append(_Ended(place, "lost_by_host"))
            case AgentState.LEFT:
                # Of a move that is over: the agent lets it run again.
                pass
    if built or failed or ended or seen:
        change, now = identity.next_change(tx), zone.clock.now()
        _write_built(tx, change, built, now)
        for one in failed:
            build_retry.build_failed(zone, tx, change, one.placement, now, one.reason)
            if one.placement.caller_id != zone.uuid:
                # Its parent may have sent an entry for another local host.
                replaced.add(one.placement.uuid)
        _write_ended(tx, change, ended, now)
        in_build = InstanceStatus.BUILD
        built_at = {i.uuid: now if i.status is in_build else i.updated_at for i, _, _ in running.values()}
        observe_on_hosts(tx, change, seen, built_at, now)
    return Taken(bool(failed or ended), frozenset(replaced))


def _without_moves(
    zone: Zone, tx: Transaction, service: Owned, reports: Sequence[AgentReport]
) -> tuple[Sequence[AgentReport], set[str]]:
    """Take the steps of moves that follow from reports.

    Return the reports that say more than that, and the instances whose moves went on.
    """
    under_way = moves.living(tx, sorted({reported.uuid for reported in reports}))
    if not under_way:
        return reports, set()
    running = _should_run(tx, service, reports)
    change, now = identity.next_change(tx), zone.clock.now()
    rest: list[AgentReport] = []
    moved: set[str] = set()
    for reported in reports:
        move = under_way.get(reported.uuid)
        if move is None or (reported.uuid, reported.attempt) not in running:
            rest.append(reported)
            continue
        if reported.attempt == move.to_number:
            after, is_taken = _arriving(tx, change, move, reported, now)
        else:
            after, is_taken = _leaving(zone, tx, change, move, reported, now)
        if after is not None:
            under_way = {**under_way, move.uuid: after}
            moved.add(move.uuid)
        if not is_taken:
            rest.append(reported)
    return rest, moved


def _arriving(
    tx: Transaction, change: int, move: Move, reported: AgentReport, now: float
) -> tuple[Move | None, bool]:
    """Return the move after a report on its new place, and whether that is all that the report says."""
    if move.state is MoveState.VERIFYING and reported.state in (AgentState.ERROR, AgentState.GONE):
        # The agent of the old host is woken, as for each step.
        return moving.lose(tx, change, move), False
    if move.state is not MoveState.ARRIVING:
        return None, False
    match reported.state:
        case AgentState.ACTIVE:
            return moving.arrive(tx, change, move, reported.observed, now), False
        case AgentState.ERROR | AgentState.GONE:
            reason = for_parent(reported.reason) if reported.reason else ""
            why = reason if reason in MESSAGES and reason != "driver_failed" else "move_not_built"
            return moving.turn_back(tx, change, move, why, now), True
        case AgentState.LEFT:
            return None, True


def _leaving(
    zone: Zone, tx: Transaction, change: int, move: Move, reported: AgentReport, now: float
) -> tuple[Move | None, bool]:
    """Return the move after a report on its old place, and whether that is all that the report says."""
    if move.state is not MoveState.LEAVING:
        return None, False
    match reported.state:
        case AgentState.LEFT if reported.left_for != move.to_number:
            # Of an earlier move: it runs again since.
            return None, True
        case AgentState.LEFT if reported.reason:
            return moving.fail(tx, change, move, "move_not_left", now), True
        case AgentState.LEFT:
            return moving.switch(zone.conf, tx, change, move, now), True
        case AgentState.ERROR | AgentState.GONE:
            return moving.fail(tx, change, move, "move_not_left", now), False
        case AgentState.ACTIVE:
            return None, False


def _release(tx: Transaction, service: Owned, reports: Sequence[AgentReport], now: float) -> set[str]:
    """Release the claims of RELEASING placements that the agent reports as gone.

    Failed moves then end; return their instances.
    """
    gone = {(reported.uuid, reported.attempt) for reported in reports if reported.state is AgentState.GONE}
    waiting = gone.intersection(agent_work.releasing(tx, service.id)) if gone else set()
    returned: set[str] = set()
    if waiting:
        places = placements.read_by_uuid(tx, sorted({uuid for uuid, _ in waiting}))
        released = [p for p in places if p.key in waiting]
        change = identity.next_change(tx)
        moved = placements.move_all(tx, change, released, PlacementState.RELEASED)
        note_offloaded(tx, change, moved, now)
        under_way = moves.living(tx, sorted({p.uuid for p in moved}))
        for p in moved:
            move = under_way.get(p.uuid)
            if move is not None and (move.state, move.to_number) == (MoveState.RETURNING, p.number):
                moving.come_back(tx, change, move, now)
                returned.add(p.uuid)
    return returned


def _should_run(
    tx: Transaction, service: Owned, reports: Sequence[AgentReport]
) -> Mapping[tuple[str, int], tuple[Instance, Placement, str]]:
    """Find the reported instances whose present, confirmed place is on a host of the service.

    Returns instance, placement and host id by (uuid, attempt).
    """
    uuids = sorted({reported.uuid for reported in reports})
    living = {i.uuid: i for i in instances.read_by_uuid(tx, uuids).values() if i.status in LIVING_STATUSES}
    here = [
        (p, p.where.host_id)
        for p in placements.read_by_uuid(tx, list(living))
        if isinstance(p.where, ClaimedHost)
        and p.state is PlacementState.CONFIRMED
        and p.number == living[p.uuid].attempt
    ]
    local_hosts = agent_work.hosts_of(tx, service.id, sorted({host_id for _, host_id in here}))
    return {p.key: (living[p.uuid], p, host_id) for p, host_id in here if host_id in local_hosts}


def _write_built(tx: Transaction, change: int, built: Sequence[_Built], now: float) -> None:
    build = [InstanceStatus.BUILD]
    active = [one.uuid for one in built]
    instances.set_status(tx, change, active, InstanceStatus.ACTIVE, now, only_from=build)
    hosts.note_builds(tx, change, sorted({one.host_id for one in built}))


def _write_ended(tx: Transaction, change: int, ended: Sequence[_Ended], now: float) -> None:
    """End instances that ran. They are not built again: their data is lost, and their owners must know."""
    for end in ended:
        p = end.placement
        # A second report on the same placement in one call finds it moved.
        if placements.move(tx, change, p, PlacementState.RELEASED, reason=end.reason):
            instances.set_status(
                tx,
                change,
                [p.uuid],
                InstanceStatus.ERROR,
                now,
                reason=end.reason,
                only_from=LIVING_STATUSES,
            )
            reservations.wake(tx, p.caller_id, p.reservation_id)
