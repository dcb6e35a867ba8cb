"""The steps of a move agree with its states; a late or illegal step is refused where moves are stored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.builders.one_zone import (
    AGENT,
    a_form,
    a_zone,
    add_hosts,
    boot_on,
    instance_of,
    put_instance,
    put_place,
    put_reservation,
)
from zonesched.errors import Conflict
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.migrations import MigrationQuery
from zonesched.model.move_steps import LIVING_MOVES, STEPS, IllegalStep, MoveKind, MoveState, MoveStep
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.hosts import hosts
from zonesched.services.hosts.hosts import REPORTS_PER_WRITE
from zonesched.services.moves import beginning
from zonesched.services.owners import migrations
from zonesched.services.zone import Zone
from zonesched.store import moves
from zonesched.store.moves import Move
from zonesched.store.placements import ClaimedHost

State = MoveState
STATUSES = {
    State.PLACING: "queued",
    State.LEAVING: "migrating",
    State.ARRIVING: "post-migrating",
    State.VERIFYING: "finished",
    State.RETURNING: "reverting",
    State.DONE: "confirmed",
    State.FAILED: "error",
    State.REVERTED: "reverted",
}
"""The statuses of migrations that OpenStack Nova has for the states of a move."""

ENDED = {State.DONE, State.FAILED, State.REVERTED}


def reachable(start: MoveState, steps: Iterable[MoveStep]) -> set[MoveState]:
    found, new = set[MoveState](), {start}
    while new:
        found |= new
        new = {step.after for step in steps if step.before in found} - found
    return found


def test_a_move_passes_all_states_never_twice_and_can_end_from_each() -> None:
    assert reachable(State.PLACING, STEPS) == set(State) == LIVING_MOVES | ENDED
    for step in STEPS:
        assert step.before not in reachable(step.after, STEPS)
    assert {step.before for step in STEPS if step.after is State.FAILED} == LIVING_MOVES
    assert not [step for step in STEPS if step.before in ENDED]


def a_move(zone: Zone, uuid: str, state: MoveState = State.PLACING) -> Move:
    move = Move(zone.clock.new_uuid(), uuid, MoveKind.MIGRATION, state, 1, "h1", "", 1, 0.0, 0.0, 0.0)
    zone.store.write(lambda tx: moves.insert(tx, move))
    return move


@pytest.mark.parametrize("before", sorted(LIVING_MOVES, key=str))
def test_only_the_listed_steps_are_taken(tmp_path: Path, before: MoveState) -> None:
    zone = a_zone(tmp_path)
    move = a_move(zone, put_instance(zone), before)

    for after in set(State) - {before} - {step.after for step in STEPS if step.before is before}:
        with pytest.raises(IllegalStep):
            zone.store.write(lambda tx, to=after: moves.step(tx, move, state=to))


def test_a_step_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    uuid = put_instance(zone)
    read = a_move(zone, uuid)

    first = zone.store.write(lambda tx: moves.step(tx, read, next_step_at=9.0))
    late = zone.store.write(lambda tx: moves.step(tx, read, state=State.LEAVING, to_number=2))

    assert late is None
    assert zone.store.read(lambda tx: moves.living(tx, [uuid])) == {uuid: first}


def test_an_instance_has_one_living_move(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    uuid = put_instance(zone)
    for _ in range(2):
        move = a_move(zone, uuid)
        with pytest.raises(Exception, match="uuid"):
            a_move(zone, uuid)
        zone.store.write(
            lambda tx, m=move: moves.step(tx, m, state=State.FAILED, reason="move_no_valid_host")
        )

    assert len(zone.store.read(lambda tx: moves.of_instance(tx, uuid))) == 2


def test_a_move_of_each_state_is_listed_with_its_own_status_and_found_by_it(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    statuses = {a_move(zone, put_instance(zone), state).id: status for state, status in STATUSES.items()}

    listed, _ = migrations.list_all(zone.store, MigrationQuery())
    of_each = {
        status: [one.id for one in migrations.list_all(zone.store, MigrationQuery(status=status))[0]]
        for status in statuses.values()
    }

    assert {one.id: one.status for one in listed} == statuses
    assert of_each == {status: [move_id] for move_id, status in statuses.items()}
    assert set(STATUSES) == set(State)


@pytest.mark.parametrize("state", [None, PlacementState.PARKED, PlacementState.RELEASING])
def test_an_instance_that_is_confirmed_at_no_host_is_not_moved(
    tmp_path: Path, state: PlacementState | None
) -> None:
    zone = a_zone(tmp_path)
    put_reservation(zone)
    instance = instance_of(zone, put_instance(zone))
    (host_id,) = add_hosts(zone, a_form("host-1"))
    where = ClaimedHost(host_id, {"VCPU": 1})
    place = put_place(zone, instance.uuid, where, state=state) if state else None

    with pytest.raises(Conflict) as refused:
        zone.store.read(lambda tx: beginning.check(tx, instance, place, ""))

    assert refused.value.code == "not_built"


@pytest.mark.parametrize("ended_first", [True, False])
def test_reports_of_ended_builds_wake_who_places_them_again(tmp_path: Path, ended_first: bool) -> None:
    # given more reports than are written at once, one of them of a failed build
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("host-1"))
    uuid = boot_on(zone, host_id, status=InstanceStatus.BUILD)
    others = [AgentReport(zone.clock.new_uuid(), 1, AgentState.ACTIVE) for _ in range(REPORTS_PER_WRITE)]
    failed = AgentReport(uuid, 1, AgentState.ERROR, "disk_full")
    woken: list[None] = []
    zone.wake.boots = lambda: woken.append(None)  # type: ignore[method-assign]
    # when
    hosts.report(zone, AGENT, "agent", others)
    assert not woken
    hosts.report(zone, AGENT, "agent", [failed, *others] if ended_first else [*others, failed])
    # then
    assert len(woken) == 1
