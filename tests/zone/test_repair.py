"""Each kind of inconsistency, planted once, is repaired in one run, which ends nothing that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.audited_zone import OTHER, a_busy_zone, in_group, kinds, put_group, unchecked_sql
from tests.builders.clock import clock_of
from tests.builders.one_zone import (
    RESERVATION,
    a_form,
    add_hosts,
    boot_below,
    boot_on,
    instance_of,
    places_of,
    put_instance,
    put_place,
    put_reservation,
    sql,
    used_on,
)
from tests.units.test_docs import kinds_of_inconsistencies
from zonesched.model.caller import Caller, Role
from zonesched.model.inconsistency import Left, Repaired
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import GroupPolicy
from zonesched.services.audit import audit, repair
from zonesched.services.audit.repair_edges import EDGE_KINDS
from zonesched.services.owners import servers
from zonesched.services.recovery import settle
from zonesched.services.zone import Zone
from zonesched.store import reservations
from zonesched.store.placements import AskedChild, ClaimedHost
from zonesched.store.reservations import ReservationState

State, Status = PlacementState, InstanceStatus
ONE_VCPU = {"VCPU": 1}
TABLES = ("hosts", "inventories", "reservations", "instances", "placements", "group_places", "counters")


def repaired(zone: Zone) -> list[str]:
    """The kinds that one repair removes; after it nothing is wrong, and another one finds nothing."""
    done = repair.run(zone)
    assert all(isinstance(one, Repaired) for one in done), done
    assert kinds(zone) == []
    assert repair.run(zone) == []
    return sorted({one.inconsistency.kind for one in done})


def rows(zone: Zone) -> list[object]:
    """All rows that a repair may touch."""
    return [sql(zone, f"select * from {table} order by 1, 2") for table in TABLES]


def test_a_zone_that_is_right_is_not_written_to(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    boot_on(zone, host_id)
    before = rows(zone)

    assert repair.run(zone) == []
    assert rows(zone) == before


@pytest.mark.parametrize("wrong", [-1, 0, 2])
def test_what_is_used_is_what_claims_take(tmp_path: Path, wrong: int) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    sql(zone, "update inventories set used = :wrong", wrong=wrong)

    assert repaired(zone) == ["used_differs"]
    assert used_on(zone, host_id) == {"VCPU": 1}


def test_a_class_without_a_row_gets_one_that_takes_nothing_more(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    sql(zone, "delete from inventories")

    assert repaired(zone) == ["used_differs"]
    assert used_on(zone, host_id) == {"VCPU": 1}
    assert sql(zone, "select capacity from inventories") == [(0,)]


def test_claims_on_a_host_that_is_gone_are_left(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    unchecked_sql(zone, "delete from inventories")
    unchecked_sql(zone, "delete from hosts")

    (left,) = repair.run(zone)
    assert isinstance(left, Left)
    assert kinds(zone) == ["used_differs"]


def test_a_capacity_is_computed_anew(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    sql(zone, "update inventories set capacity = 80")

    assert repaired(zone) == ["capacity_differs"]
    assert sql(zone, "select capacity from inventories") == [(8,)]


def test_who_is_on_a_host_with_too_many_runs_on(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id, {"VCPU": 7})
    sql(zone, "update placements set resources = '{\"VCPU\": 8}' where uuid = :uuid", uuid=uuid)
    sql(zone, "update inventories set used = 9")

    assert repaired(zone) == ["over_capacity"]
    assert instance_of(zone, uuid).status is Status.ACTIVE
    assert used_on(zone, host_id) == {"VCPU": 9}


@pytest.mark.parametrize("status", [Status.ERROR, Status.DELETED])
def test_what_an_ended_instance_took_is_given_back(tmp_path: Path, status: InstanceStatus) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    sql(zone, "update instances set status = :status where uuid = :uuid", status=status.value, uuid=uuid)

    assert repaired(zone) == ["claim_without_instance"]
    assert used_on(zone, host_id) == {"VCPU": 1}


def test_a_child_is_told_to_delete_what_was_deleted(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    uuid = boot_below(zone, "child-1", status=Status.DELETED)

    assert repaired(zone) == ["claim_without_instance"]
    assert [p.state for p in places_of(zone, uuid)] == [State.RELEASING]


def test_an_instance_that_is_missing_is_written_anew(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    unchecked_sql(zone, "delete from instances where uuid = :uuid", uuid=uuid)

    assert repaired(zone) == ["claim_without_instance", "reservation_counts"]
    assert instance_of(zone, uuid).status is Status.ACTIVE
    assert used_on(zone, host_id) == {"VCPU": 2}


@pytest.mark.parametrize("below", [False, True])
def test_of_what_has_neither_instance_nor_boot_nothing_below_is_ended(tmp_path: Path, below: bool) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_below(zone, "child-1") if below else boot_on(zone, host_id)
    boot = instance_of(zone, uuid).reservation_id
    unchecked_sql(zone, "delete from instances where uuid = :uuid", uuid=uuid)
    unchecked_sql(zone, "delete from reservations where id = :id", id=boot)

    (done,) = repair.run(zone)

    assert isinstance(done, Left if below else Repaired)
    assert [p.state for p in places_of(zone, uuid)] == [State.CONFIRMED if below else State.RELEASED]
    assert used_on(zone, host_id) == {"VCPU": 1}


def test_an_instance_is_where_it_is_built(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    sql(zone, "update instances set attempt = 2 where uuid = :uuid", uuid=uuid)

    assert repaired(zone) == ["claim_without_instance", "instance_without_place"]
    assert (instance_of(zone, uuid).attempt, instance_of(zone, uuid).status) == (1, Status.ACTIVE)
    assert used_on(zone, host_id) == {"VCPU": 2}


@pytest.mark.parametrize("present", [1, 2])
def test_of_two_built_places_the_present_one_is_kept(tmp_path: Path, present: int) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    boot = instance_of(zone, uuid).reservation_id
    put_place(zone, uuid, AskedChild("child-1", ()), number=2, state=State.CONFIRMED, reservation_id=boot)
    sql(zone, "update instances set attempt = :present where uuid = :uuid", present=present, uuid=uuid)

    assert repaired(zone) == ["claim_without_instance", "two_places"]
    kept, let_go = (State.CONFIRMED, State.RELEASING) if present == 1 else (State.RELEASED, State.CONFIRMED)
    assert [p.state for p in places_of(zone, uuid)] == [kept, let_go]


def test_a_second_hold_of_a_settled_boot_is_let_go(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    boot = instance_of(zone, uuid).reservation_id
    put_place(zone, uuid, AskedChild("child-1", ()), number=2, state=State.HELD, reservation_id=boot)

    assert repaired(zone) == ["two_places"]
    assert [p.state for p in places_of(zone, uuid)] == [State.CONFIRMED, State.CANCELLING]


@pytest.mark.parametrize("state", [None, State.GONE, State.FAILED])
def test_what_was_never_built_is_placed_anew(tmp_path: Path, state: PlacementState | None) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_reservation(zone)
    uuid = put_instance(zone, status=Status.BUILD, attempt=1 if state else 0)
    if state:
        put_place(zone, uuid, ClaimedHost(host_id, ONE_VCPU), state=state, claimed=False)
    clock_of(zone).advance(3600)

    assert repaired(zone) == ["instance_without_place"]
    boot = zone.store.read(lambda tx: reservations.read_one(tx, zone.uuid, RESERVATION))
    assert boot.state is ReservationState.OPEN


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.UNKNOWN])
@pytest.mark.parametrize("caller_id", ["", "parent-1"])
def test_what_was_built_and_cannot_be_found_is_an_error(
    tmp_path: Path, status: InstanceStatus, caller_id: str
) -> None:
    zone, _ = a_busy_zone(tmp_path)
    state = ReservationState.SERVED if caller_id else ReservationState.SETTLED
    put_reservation(zone, caller_id=caller_id, state=state)
    uuid = put_instance(zone, status=status, attempt=0, caller_id=caller_id)

    assert repaired(zone) == ["instance_without_place"]
    assert (instance_of(zone, uuid).status, instance_of(zone, uuid).reason) == (Status.ERROR, "place_lost")


def test_of_an_entry_that_was_used_twice_both_run_on(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuids = [boot_on(zone, host_id) for _ in range(2)]
    unchecked_sql(zone, "alter table placements rename to checked")
    unchecked_sql(zone, "create table placements as select * from checked")
    for uuid in uuids:
        sql(zone, "update placements set entry_key = 'salt-1' where uuid = :uuid", uuid=uuid)

    assert repaired(zone) == ["entry_used_twice"]
    assert [instance_of(zone, uuid).status for uuid in uuids] == [Status.ACTIVE] * 2
    assert sorted(p.entry_key for uuid in uuids for p in places_of(zone, uuid)) == ["", "salt-1"]


@pytest.mark.parametrize(("state", "after"), [(State.HELD, State.GONE), (State.INTENDED, State.CANCELLING)])
def test_a_hold_long_over_is_ended(tmp_path: Path, state: PlacementState, after: PlacementState) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_reservation(zone, caller_id="parent-1", state=ReservationState.SERVED)
    uuid = put_instance(zone, status=Status.BUILD, caller_id="parent-1")
    where = ClaimedHost(host_id, ONE_VCPU) if state is State.HELD else AskedChild("child-1", ())
    put_place(zone, uuid, where, state=state, caller_id="parent-1")
    clock_of(zone).advance(30 + 2 * zone.conf.hold + audit.GRACE_S + 1)

    assert repaired(zone) == ["hold_overdue"]
    assert [p.state for p in places_of(zone, uuid)] == [after]
    assert used_on(zone, host_id) == {"VCPU": 1}


def test_a_boot_that_nobody_works_on_is_due_now(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    put_reservation(zone, state=ReservationState.OPEN)
    put_instance(zone, status=Status.BUILD, attempt=0)
    clock_of(zone).advance(audit.GRACE_S + 1)

    assert repaired(zone) == ["reservation_overdue"]
    now = zone.clock.now()
    assert zone.store.write(lambda tx: reservations.take_lease(tx, now, 30.0)) is not None


@pytest.mark.parametrize("asked", [1, 3])
def test_a_boot_is_of_as_many_instances_as_there_are(tmp_path: Path, asked: int) -> None:
    zone, _ = a_busy_zone(tmp_path)
    put_reservation(zone, num_instances=asked)
    for _ in range(2):
        put_instance(zone, status=Status.ERROR)

    assert repaired(zone) == ["reservation_counts"]


def test_a_boot_without_any_instance_is_forgotten(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    put_reservation(zone)

    assert repaired(zone) == ["reservation_counts"]


def test_an_instance_of_no_boot_gets_one(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = put_instance(zone, reservation_id=OTHER)
    put_place(zone, uuid, ClaimedHost(host_id, {"VCPU": 2, "PGPU": 0}), reservation_id=OTHER, claimed=False)
    sql(zone, "update inventories set used = 3")

    assert repaired(zone) == ["reservation_counts"]
    boot = zone.store.read(lambda tx: reservations.read_one(tx, zone.uuid, OTHER))
    assert boot.spec.resources == {"VCPU": 2}
    assert instance_of(zone, uuid).status is Status.ACTIVE


def test_a_groups_place_without_an_instance_is_given_back(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_group(zone, host_id)

    assert repaired(zone) == ["group_place_unused"]


def test_an_affinity_group_gets_the_place_where_it_is(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    in_group(zone, host_id, GroupPolicy.AFFINITY)

    assert repaired(zone) == ["group_place_missing"]
    assert sql(zone, "select host_id from group_places") == [(host_id,)]


@pytest.mark.parametrize("at_first", [True, False])
def test_who_is_elsewhere_than_its_group_leaves_it_and_runs_on(tmp_path: Path, at_first: bool) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    (second,) = add_hosts(zone, a_form("h2", VCPU=8))
    here = in_group(zone, host_id, GroupPolicy.AFFINITY)
    there = [in_group(zone, second, GroupPolicy.AFFINITY) for _ in range(2)]
    put_group(zone, host_id if at_first else "h3")

    assert repaired(zone) == ["group_split"]
    in_it = [uuid for uuid in (here, *there) if instance_of(zone, uuid).group_id]
    assert in_it == ([here] if at_first else there)
    assert all(instance_of(zone, uuid).status is Status.ACTIVE for uuid in (here, *there))


def test_the_youngest_of_a_host_with_too_many_leave_the_group(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuids = []
    for _ in range(3):
        uuids.append(in_group(zone, host_id, GroupPolicy.ANTI_AFFINITY, 2))
        clock_of(zone).advance(1)

    assert repaired(zone) == ["group_host_overfull"]
    assert [instance_of(zone, uuid).group_id for uuid in uuids] == ["g1", "g1", ""]
    assert all(p.state is State.CONFIRMED for uuid in uuids for p in places_of(zone, uuid))


def test_several_kinds_at_once_are_repaired_by_one_run(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    ended = boot_on(zone, host_id)
    sql(zone, "update instances set status = 'DELETED' where uuid = :uuid", uuid=ended)
    sql(zone, "update inventories set used = 7, capacity = 5")
    put_group(zone, host_id)

    kinds_found = ["capacity_differs", "claim_without_instance", "group_place_unused", "used_differs"]
    assert repaired(zone) == kinds_found
    assert used_on(zone, host_id) == {"VCPU": 1}


def test_every_kind_that_is_found_has_a_way_to_be_repaired() -> None:
    assert {*repair.REPAIRS, *EDGE_KINDS, *settle.KINDS} == kinds_of_inconsistencies()


# -- what is left alone ------------------------------------------------------------------------------------


def ended(zone: Zone, host_id: str) -> None:
    uuid = boot_on(zone, host_id)
    sql(zone, "update instances set status = 'DELETED' where uuid = :uuid", uuid=uuid)


def miscounted(zone: Zone, host_id: str) -> None:
    sql(zone, "update inventories set used = 5")


def empty(zone: Zone, host_id: str) -> None:
    put_reservation(zone)


def unplaced(zone: Zone, host_id: str) -> None:
    put_reservation(zone)
    put_instance(zone, status=Status.ACTIVE, attempt=0)


@pytest.mark.parametrize("plant", [ended, miscounted, empty, unplaced])
def test_a_dry_run_says_the_same_and_changes_nothing(
    tmp_path: Path, plant: Callable[[Zone, str], None]
) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    plant(zone, host_id)
    before = rows(zone)

    said = repair.run(zone, dry_run=True)

    assert rows(zone) == before
    assert said == repair.run(zone)
    assert said != []


def test_what_a_worker_has_in_hand_is_left_to_it(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    sql(zone, "update instances set status = 'DELETED' where uuid = :uuid", uuid=uuid)
    sql(zone, "update reservations set lease_expires_at = :until", until=zone.clock.now() + 30)

    (left,) = repair.run(zone)
    clock_of(zone).advance(31)

    assert isinstance(left, Left)
    assert repaired(zone) == ["claim_without_instance"]


def test_live_holds_are_left_while_something_else_is_repaired(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_reservation(zone, num_instances=1, state=ReservationState.OPEN)
    uuid = put_instance(zone, status=Status.BUILD)
    put_place(zone, uuid, ClaimedHost(host_id, ONE_VCPU), state=State.HELD)
    miscounted(zone, host_id)

    assert repaired(zone) == ["used_differs"]
    assert [p.state for p in places_of(zone, uuid)] == [State.HELD]
    assert used_on(zone, host_id) == {"VCPU": 2}


def test_an_instance_whose_boot_was_written_anew_can_be_listed_and_deleted(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    unchecked_sql(zone, "delete from reservations where id = :id", id=instance_of(zone, uuid).reservation_id)
    repaired(zone)
    admin = Caller("admin-user", "admin", Role.ADMIN, "project-1")

    assert servers.show(zone, admin, uuid).uuid == uuid
    servers.delete(zone, admin, uuid)
    assert used_on(zone, host_id) == {"VCPU": 1}


def test_a_boot_that_is_written_anew_takes_what_its_instance_takes(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    taken = {"VCPU": 1, "PCPU": 2, "MEMORY_MB": 512}
    (host_id,) = add_hosts(zone, a_form("h-2", VCPU=8, PCPU=8, MEMORY_MB=8192))
    uuid = boot_on(zone, host_id, taken)
    boot = instance_of(zone, uuid).reservation_id
    unchecked_sql(zone, "delete from reservations where id = :id", id=boot)
    repair.run(zone)

    (spec,) = zone.store.read(lambda tx: reservations.specs(tx, [boot])).values()
    assert spec.resources == taken
