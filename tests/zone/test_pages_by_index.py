"""A page of a long list is read from an index, from its marker on, and never sorts all there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.many_instances import EVERYBODYS, many_instances, put_state
from tests.builders.one_zone import a_zone, put_instance, put_reservation, sql
from tests.builders.query_plans import sqlite_plans, sqlite_steps
from zonesched.model.caller import Caller, Role
from zonesched.model.desired_state import InstanceState
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.server_query import ServerQuery
from zonesched.services.owners import reservations, servers
from zonesched.services.owners import server_usage as usages
from zonesched.services.owners.server_usage import UsageQuery
from zonesched.services.zone import Zone
from zonesched.store import (
    few_instances,
    identity,
    instance_actions,
    instance_states,
    moves,
    server_list,
    server_usage,
)
from zonesched.store.moves import Move, MovePage
from zonesched.store.server_usage import UsagePage


def some_instances(zone: Zone) -> list[str]:
    """Instances of two projects, some of the same age, from the newest on."""
    put_reservation(zone, num_instances=6)
    uuids = [put_instance(zone, f"{number:08}-1111-4111-8111-111111111111") for number in range(6)]
    for number, uuid in enumerate(uuids):
        sql(
            zone,
            "UPDATE instances SET project_id = :project, created_at = created_at - :age_s WHERE uuid = :uuid",
            project=f"project-{number % 2}",
            age_s=number // 4,
            uuid=uuid,
        )
    return uuids


def test_usage_has_each_instance_on_one_page_whole_projects_together(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    uuids = some_instances(zone)
    now = zone.clock.now()

    marker, found = "", []
    while True:
        page, marker = usages.read(zone, UsageQuery("", now - 100, now + 100, marker, limit=2))
        found += page
        if not marker:
            break

    assert [one.uuid for one in found] == [uuids[n] for n in (4, 0, 2, 5, 1, 3)]
    assert [one.project_id for one in found] == ["project-0"] * 3 + ["project-1"] * 3


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("project", "begin"),
    [("", "(project_id,created_at,uuid)>(?,?,?)"), ("project-0", "project_id=? AND (created_at,uuid)>(?,?)")],
    ids=["of all projects", "of one project"],
)
def test_a_page_of_usage_begins_behind_its_marker(tmp_path: Path, project: str, begin: str) -> None:
    zone = a_zone(tmp_path, FakeClock())
    marker = some_instances(zone)[2]
    page = UsagePage(zone.uuid, project, 0.0, zone.clock.now() + 1, marker, limit=2)

    (*_, plan) = sqlite_plans(zone.store, lambda tx: server_usage.page(tx, page))

    assert f"ix_instances_listing (caller_id=? AND {begin}" in plan


def test_usage_is_counted_as_far_as_a_limit(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    uuids = some_instances(zone)
    now = zone.clock.now()
    sql(zone, "UPDATE instances SET status = 'DELETED', ended_at = 1 WHERE uuid = :uuid", uuid=uuids[0])

    def has_more_than(number: int, project: str = "") -> bool:
        return usages.has_more_than(zone, UsageQuery(project, now - 100, now + 100, "", limit=1), number)

    assert (has_more_than(4), has_more_than(5)) == (True, False)
    assert (has_more_than(1, "project-0"), has_more_than(2, "project-0")) == (True, False)


@pytest.mark.sqlite
def test_usage_is_counted_no_further_than_its_limit(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)
    page = UsagePage(zone.uuid, "", 0.0, zone.clock.now() + 2000, "", limit=2)

    assert sqlite_steps(zone.store, lambda tx: server_usage.has_more_than(tx, page, 10)) < 20


@pytest.mark.sqlite
def test_a_page_of_migrations_begins_at_its_marker(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    uuid, id = some_instances(zone)[0], zone.clock.new_uuid()
    move = Move(id, uuid, MoveKind.MIGRATION, MoveState.DONE, 1, "h1", "", 1, 5.0, 6.0, 7.0)
    zone.store.write(lambda tx: moves.insert(tx, move))
    page = MovePage(list(MoveState), list(MoveKind), "", "", "", "", "", 0.0, 0.0, id, limit=2)

    plans = sqlite_plans(zone.store, lambda tx: moves.latest(tx, page))

    assert "SEARCH moves USING INDEX ix_moves_created (created_at<?)" in plans
    assert "USE TEMP B-TREE FOR ORDER BY" not in plans


def test_each_migration_is_on_one_page_whatever_began_at_the_same_time(tmp_path: Path) -> None:
    # given moves of two instances, of the first one several, that began at few times
    zone = a_zone(tmp_path, FakeClock())
    first, second = sorted(some_instances(zone)[:2])
    begun = [
        (first, 1, 5.0),
        (first, 2, 5.0),
        (first, 2, 5.0),
        (second, 1, 5.0),
        (second, 2, 6.0),
        (first, 3, 4.0),
    ]
    for uuid, number, at in begun:
        id = zone.clock.new_uuid()
        move = Move(id, uuid, MoveKind.MIGRATION, MoveState.DONE, number, "h1", "", 1, at, at, at)
        zone.store.write(lambda tx, move=move: moves.insert(tx, move))
    whole = MovePage(list(MoveState), list(MoveKind), "", "", "", "", "", 0.0, 0.0, "", limit=10)

    # when they are read one by one
    every = zone.store.read(lambda tx: moves.latest(tx, whole))
    marker, found = "", []
    for _ in every:
        page = replace(whole, marker=marker, limit=1)
        found += zone.store.read(lambda tx, page=page: moves.latest(tx, page))
        marker = found[-1].id

    # then each comes once, the newest first
    assert found == every
    assert sorted(one.id for one in every) == sorted({one.id for one in every})
    assert [(one.uuid, one.from_number) for one in every] == [
        (second, 2),
        (first, 2),
        (first, 2),
        (first, 1),
        (second, 1),
        (first, 3),
    ]


@pytest.mark.sqlite
@pytest.mark.parametrize("status", ["ACTIVE", "DELETED"])
def test_a_page_of_a_status_that_most_instances_have_does_not_sort_them(tmp_path: Path, status: str) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)
    page = replace(EVERYBODYS, statuses=(status,))

    plans = sqlite_plans(zone.store, lambda tx: server_list.page(tx, page))

    assert "SCAN instances USING INDEX ix_instances_created" in plans


@pytest.mark.sqlite
@pytest.mark.parametrize("few", [0, 5000])
def test_a_page_of_a_status_that_few_instances_have_reads_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(few_instances, "FEW", few)
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)
    stopped = put_instance(zone)
    put_state(zone, stopped, InstanceState(observed=Observed(power=Power.STOPPED)))
    page = replace(EVERYBODYS, statuses=("SHUTOFF", "VERIFY_RESIZE", "ERROR"))

    steps = sqlite_steps(zone.store, lambda tx: server_list.page(tx, page))

    assert (steps < 20) == (few > 0)
    assert [one.uuid for one in zone.store.read(lambda tx: server_list.page(tx, page))] == [stopped]


@pytest.mark.sqlite
@pytest.mark.parametrize("few", [0, 5000])
def test_a_page_of_few_changes_or_locks_reads_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(few_instances, "FEW", few)
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)
    uuid = put_instance(zone)
    sql(zone, "UPDATE instances SET updated_at = updated_at + 100 WHERE uuid = :uuid", uuid=uuid)
    zone.store.write(lambda tx: instance_actions.lock(tx, [uuid], "", by_admin=False))
    [since] = sql(zone, "SELECT updated_at FROM instances WHERE uuid = :uuid", uuid=uuid)[0]

    for page in (replace(EVERYBODYS, changed_since=since), replace(EVERYBODYS, locked=True)):
        steps = sqlite_steps(zone.store, lambda tx, page=page: server_list.page(tx, page))

        assert (steps < 20) == (few > 0)
        assert [one.uuid for one in zone.store.read(lambda tx, page=page: server_list.page(tx, page))] == [
            uuid
        ]


@pytest.mark.sqlite
def test_resizes_that_wait_for_their_confirmation_are_read_from_their_index(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)

    steps = sqlite_steps(
        zone.store,
        lambda tx: instance_states.unconfirmed(tx, zone.uuid, zone.clock.now(), 100, in_children=True),
    )

    assert steps < 5


def test_an_admins_list_of_one_project_has_those_of_all_its_senders_in_order(tmp_path: Path) -> None:
    clock = FakeClock()
    zone = a_zone(tmp_path, clock)
    put_reservation(zone)
    uuids = []
    for caller_id in ("", "parent-1", "", "parent-2", "parent-1"):
        clock.advance(1)
        uuids.append(put_instance(zone, caller_id=caller_id))
    page = replace(EVERYBODYS, project_id="project-1")

    first = zone.store.read(lambda tx: server_list.page(tx, page))
    second = zone.store.read(lambda tx: server_list.page(tx, replace(page, marker=first[-1].uuid, limit=3)))
    none = zone.store.read(lambda tx: server_list.page(tx, replace(page, project_id="project-2")))

    assert [one.uuid for one in (*first, *second)] == uuids[::-1]
    assert none == []


@pytest.mark.sqlite
def test_an_admins_list_of_one_project_does_not_read_the_others(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)
    page = replace(EVERYBODYS, project_id="project-2")

    assert sqlite_steps(zone.store, lambda tx: server_list.page(tx, page)) < 20


@pytest.mark.sqlite
def test_to_see_that_nothing_has_changed_reads_no_instances(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)

    assert sqlite_steps(zone.store, lambda tx: identity.stored_changes(tx, 10_000)) < 20


def test_a_list_reads_the_decision_trace_of_no_boot_but_of_one_with_a_server_in_error(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    member = Caller("user-1", "member", Role.MEMBER, "project-1")
    put_reservation(zone)
    uuid = put_instance(zone)
    sql(zone, "UPDATE reservations SET why = 'no trace'")
    put_reservation(zone, failed := zone.clock.new_uuid())
    in_error = put_instance(zone, reservation_id=failed, status=InstanceStatus.ERROR)
    now = zone.clock.now()

    shown, _ = servers.list_servers(zone, member, ServerQuery())
    boots, _ = reservations.list_boots(zone, member, "", 10, all_tenants=False)
    usage, _ = usages.read(zone, UsageQuery("", now - 100, now + 100, "", limit=10))

    assert {one.uuid for one in shown} == {uuid, in_error}
    assert (len(boots), len(usage)) == (2, 1)
