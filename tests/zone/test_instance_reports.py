"""Desired instances that an agent gets, and the effect of its reports on an instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import (
    AGENT,
    a_form,
    a_zone,
    add_hosts,
    boot_below,
    boot_on,
    instance_of,
    places_of,
    sql,
    used_on,
)
from zonesched.model.agent_instances import AgentReport, AgentState, DesiredInstance
from zonesched.model.host_state import HostState
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone

State = PlacementState
BUILD, ACTIVE = InstanceStatus.BUILD, InstanceStatus.ACTIVE


def tell(zone: Zone, uuid: str, state: AgentState, *, attempt: int = 1, reason: str = "") -> None:
    hosts.report(zone, AGENT, "agent", [AgentReport(uuid, attempt, state, reason)])


def last_change(zone: Zone) -> int:
    return int(sql(zone, "select value from counters")[0].value)


def test_an_agent_is_told_what_should_run_on_its_hosts(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
    (other,) = add_hosts(zone, a_form("h3"), service="other")
    second, first = boot_on(zone, two), boot_on(zone, one, status=BUILD)
    elsewhere = boot_on(zone, other)

    flavor, image = Flavor("f1", "small", 1, 512, 0), Image("i1", "plain", {"os": "linux"})
    boots = [instance_of(zone, uuid).reservation_id for uuid in (first, second)]
    assert hosts.desired(zone.store, zone.heartbeats, AGENT, "agent") == [
        DesiredInstance(first, 1, "h1", "vm", flavor, image, BUILD, reservation_id=boots[0]),
        DesiredInstance(second, 1, "h2", "vm", flavor, image, ACTIVE, reservation_id=boots[1]),
    ]
    assert [d.uuid for d in hosts.desired(zone.store, zone.heartbeats, AGENT, "other")] == [elsewhere]


@pytest.mark.parametrize("state", [s for s in State if s not in (State.CONFIRMED, State.PARKED)])
def test_only_what_is_confirmed_is_to_run(tmp_path: Path, state: PlacementState) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=BUILD)
    sql(zone, "update placements set state = :state", state=state.value)

    assert hosts.desired(zone.store, zone.heartbeats, AGENT, "agent") == []
    tell(zone, uuid, AgentState.ACTIVE)
    assert instance_of(zone, uuid).status is BUILD


def test_what_is_parked_is_kept_and_does_not_run(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id)
    sql(zone, "update placements set state = 'parked'")

    (told,) = hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")

    assert (told.uuid, told.leaves_for) == (uuid, 1)


@pytest.mark.parametrize("status", [InstanceStatus.ERROR, InstanceStatus.DELETED])
def test_what_has_ended_is_not_to_run(tmp_path: Path, status: InstanceStatus) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id)
    sql(zone, "update instances set status = :status", status=status.value)

    assert hosts.desired(zone.store, zone.heartbeats, AGENT, "agent") == []
    for state in AgentState:
        tell(zone, uuid, state)
    assert instance_of(zone, uuid).status is status
    assert used_on(zone, host_id)["VCPU"] == 1


def test_an_instance_that_runs_is_active(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=BUILD)

    tell(zone, uuid, AgentState.ACTIVE)

    assert instance_of(zone, uuid).status is ACTIVE
    assert used_on(zone, host_id)["VCPU"] == 1


def test_a_build_that_failed_gives_everything_back_and_is_to_be_placed_again(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, {"VCPU": 3, "MEMORY_MB": 100}, status=BUILD)

    tell(zone, uuid, AgentState.ERROR, reason="image_broken")

    again = instance_of(zone, uuid)
    assert (again.status, again.reason, again.failed_builds) == (BUILD, "image_broken", 1)
    assert [(p.state, p.reason) for p in places_of(zone, uuid)] == [(State.FAILED, "image_broken")]
    assert used_on(zone, host_id) == {"VCPU": 0, "MEMORY_MB": 0}
    assert sql(zone, "select state, wakes, selects from reservations") == [("open", 1, 0)]


def test_the_last_build_that_may_fail_ends_the_instance(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, max_attempts=1)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=BUILD)

    tell(zone, uuid, AgentState.ERROR, reason="image_broken")

    ended = instance_of(zone, uuid)
    assert (ended.status, ended.reason) == (InstanceStatus.ERROR, "image_broken")
    assert used_on(zone, host_id)["VCPU"] == 0


def test_a_build_that_failed_without_a_reason_has_one(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=BUILD)

    tell(zone, uuid, AgentState.ERROR)

    assert instance_of(zone, uuid).reason == "build_failed"


@pytest.mark.parametrize(("told", "reason"), [("", "ended_on_host"), ("killed", "killed")])
def test_what_ran_and_ended_by_itself_is_in_error_and_gives_everything_back(
    tmp_path: Path, told: str, reason: str
) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=ACTIVE)

    tell(zone, uuid, AgentState.ERROR, reason=told)

    ended = instance_of(zone, uuid)
    assert (ended.status, ended.reason) == (InstanceStatus.ERROR, reason)
    assert [(p.state, p.reason) for p in places_of(zone, uuid)] == [(State.RELEASED, reason)]
    assert used_on(zone, host_id)["VCPU"] == 0
    assert counted(zone) == (0, 0)


@pytest.mark.parametrize("status", [BUILD, ACTIVE])
def test_an_instance_that_should_run_and_is_gone_is_lost(tmp_path: Path, status: InstanceStatus) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=status)

    tell(zone, uuid, AgentState.GONE)

    ended = instance_of(zone, uuid)
    assert (ended.status, ended.reason) == (InstanceStatus.ERROR, "lost_by_host")
    assert used_on(zone, host_id)["VCPU"] == 0


@pytest.mark.parametrize("state", list(AgentState))
def test_a_report_said_twice_is_said_once(tmp_path: Path, state: AgentState) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=BUILD)
    boot_on(zone, host_id)
    twice = [AgentReport(uuid, 1, state), AgentReport(uuid, 1, state)]

    hosts.report(zone, AGENT, "agent", twice)
    used, change = used_on(zone, host_id), last_change(zone)
    hosts.report(zone, AGENT, "agent", twice)

    assert used["VCPU"] == (2 if state in (AgentState.ACTIVE, AgentState.LEFT) else 1)
    assert (used_on(zone, host_id), last_change(zone)) == (used, change)


@pytest.mark.parametrize("state", list(AgentState))
def test_another_attempt_than_the_present_one_says_nothing(tmp_path: Path, state: AgentState) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=BUILD)

    for attempt in (0, 2):
        tell(zone, uuid, state, attempt=attempt)

    assert instance_of(zone, uuid).status is BUILD
    assert used_on(zone, host_id)["VCPU"] == 1


@pytest.mark.parametrize("state", list(AgentState))
def test_a_place_that_an_instance_has_left_says_nothing(tmp_path: Path, state: AgentState) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    uuid = boot_on(zone, host_id, status=BUILD, attempt=2)

    tell(zone, uuid, state, attempt=1)

    assert instance_of(zone, uuid).status is BUILD
    assert used_on(zone, host_id)["VCPU"] == 1


@pytest.mark.parametrize("state", list(AgentState))
def test_an_agent_speaks_for_its_own_hosts_only(tmp_path: Path, state: AgentState) -> None:
    zone = a_zone(tmp_path)
    add_hosts(zone, a_form("h1"))
    (other,) = add_hosts(zone, a_form("h2"), service="other")
    uuid = boot_on(zone, other, status=BUILD)

    tell(zone, uuid, state)

    assert instance_of(zone, uuid).status is BUILD


@pytest.mark.parametrize("state", list(AgentState))
def test_an_agent_says_nothing_of_instances_below_or_unknown(tmp_path: Path, state: AgentState) -> None:
    zone = a_zone(tmp_path)
    add_hosts(zone, a_form("h1"))
    below = boot_below(zone, "child-1", status=BUILD)

    for uuid in (below, "no-such-instance"):
        tell(zone, uuid, state)

    assert instance_of(zone, below).status is BUILD


def test_many_reports_are_taken_in_parts(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=10))
    uuids = [boot_on(zone, host_id, status=BUILD) for _ in range(5)]
    noise = [AgentReport(f"unknown-{n}", 1, AgentState.ACTIVE) for n in range(1200)]

    hosts.report(zone, AGENT, "agent", [*noise, *(AgentReport(uuid, 1, AgentState.ACTIVE) for uuid in uuids)])

    assert {instance_of(zone, uuid).status for uuid in uuids} == {ACTIVE}


def counted(zone: Zone) -> tuple[int, int]:
    with zone.hosts.current() as table:
        state = HostState(table, 0)
        return state.num_io_ops, state.failed_builds


def test_a_host_counts_what_it_builds_and_the_builds_that_failed_since_the_last_that_did_not(
    tmp_path: Path,
) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    failing = [boot_on(zone, host_id, status=BUILD) for _ in range(2)]
    built = boot_on(zone, host_id, status=BUILD)
    assert counted(zone) == (3, 0)

    for uuid in failing:
        tell(zone, uuid, AgentState.ERROR)
    assert counted(zone) == (1, 2)

    tell(zone, built, AgentState.ACTIVE)
    assert counted(zone) == (0, 0)
