"""The audit finds each kind of inconsistency, planted once, and nothing in a zone that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.audited_zone import OTHER, a_busy_zone, in_group, kinds, put_group, unchecked_sql
from tests.builders.clock import clock_of
from tests.builders.one_zone import (
    a_form,
    a_zone,
    add_hosts,
    boot_below,
    boot_on,
    instance_of,
    put_instance,
    put_place,
    put_reservation,
    sql,
)
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import GroupPolicy
from zonesched.services.audit import audit
from zonesched.services.hosts import hosts
from zonesched.store import audit_groups
from zonesched.store.placements import AskedChild, ClaimedHost
from zonesched.store.reservations import ReservationState

State = PlacementState
BUILD, ACTIVE, UNKNOWN = InstanceStatus.BUILD, InstanceStatus.ACTIVE, InstanceStatus.UNKNOWN
ONE_VCPU = {"VCPU": 1}


# -- what is right -----------------------------------------------------------------------------------------


def test_an_empty_zone_has_no_inconsistency(tmp_path: Path) -> None:
    assert kinds(a_zone(tmp_path)) == []


@pytest.mark.parametrize("status", [BUILD, ACTIVE, UNKNOWN])
def test_living_instances_in_their_places_are_right(tmp_path: Path, status: InstanceStatus) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    boot_on(zone, host_id, status=status)
    boot_on(zone, host_id, status=status, caller_id="parent-1")
    boot_below(zone, "child-1", status=status)

    assert kinds(zone) == []


def test_places_that_are_over_are_right(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id, attempt=4)
    reservation_id = instance_of(zone, uuid).reservation_id
    sql(zone, "update placements set number = 4 where uuid = :uuid", uuid=uuid)
    for number, state in ((1, State.FAILED), (2, State.GONE), (3, State.RELEASED)):
        where = ClaimedHost(host_id, ONE_VCPU)
        put_place(zone, uuid, where, number=number, state=state, reservation_id=reservation_id, claimed=False)

    assert kinds(zone) == []


def test_live_holds_and_leased_work_are_right(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_reservation(zone, num_instances=3, state=ReservationState.OPEN)
    for state in (State.HELD, State.INTENDED):
        uuid = put_instance(zone, status=BUILD)
        where = ClaimedHost(host_id, ONE_VCPU) if state is State.HELD else AskedChild("child-1", ())
        put_place(zone, uuid, where, state=state)
    put_instance(zone, status=BUILD, attempt=0)
    sql(zone, "update reservations set lease_expires_at = :until", until=zone.clock.now() + 60)

    assert kinds(zone) == []


def test_a_boot_under_way_may_still_let_go_of_an_older_hold(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_reservation(zone, state=ReservationState.OPEN)
    uuid = put_instance(zone, status=BUILD, attempt=2)

    put_place(zone, uuid, AskedChild("child-1", ()), number=1, state=State.INTENDED)
    put_place(zone, uuid, ClaimedHost(host_id, ONE_VCPU), number=2, state=State.HELD)

    assert kinds(zone) == []


def test_an_instance_in_error_below_keeps_its_place_until_it_is_deleted(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    boot_below(zone, "child-1", status=InstanceStatus.ERROR)

    assert kinds(zone) == []


def test_a_parents_hold_that_is_being_cancelled_is_right(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    put_reservation(zone, caller_id="parent-1", state=ReservationState.SERVED)
    uuid = put_instance(zone, status=BUILD, caller_id="parent-1")
    put_place(zone, uuid, AskedChild("child-1", ()), state=State.CANCELLING, caller_id="parent-1")

    assert kinds(zone) == []


def test_a_host_that_shrank_below_its_claims_is_right(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    boot_on(zone, host_id, {"VCPU": 5})

    add_hosts(zone, a_form("h1", VCPU=2))

    assert hosts.show_hypervisor(zone, host_id).resources["VCPU"].used == 6
    assert kinds(zone) == []


# -- what is planted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-1, 0, 2])
def test_used_that_is_not_what_claims_take_is_found(tmp_path: Path, wrong: int) -> None:
    zone, host_id = a_busy_zone(tmp_path)

    sql(zone, "update inventories set used = :wrong", wrong=wrong)

    (found,) = audit.run(zone)
    assert (found.kind, str(found.subject)) == ("used_differs", f"host {host_id} VCPU")
    assert found.detail == f"used is {wrong}, claims take 1"


def test_a_claim_of_a_class_without_a_row_is_found(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)

    sql(zone, "delete from inventories")

    assert kinds(zone) == ["used_differs"]


def test_claims_above_the_capacity_are_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id, {"VCPU": 7})

    sql(zone, "update placements set resources = '{\"VCPU\": 8}' where uuid = :uuid", uuid=uuid)
    sql(zone, "update inventories set used = 9")

    (found,) = audit.run(zone)
    assert (found.kind, found.detail) == ("over_capacity", "used is 9 of 8")


def test_claims_that_grew_on_a_host_that_shrank_are_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    boot_on(zone, host_id, {"VCPU": 5})
    add_hosts(zone, a_form("h1", VCPU=2))

    uuid = boot_on(zone, add_hosts(zone, a_form("h2", VCPU=8))[0])
    sql(zone, "update placements set host_id = :host where uuid = :uuid", host=host_id, uuid=uuid)
    sql(zone, "update inventories set used = 7 where host_id = :host", host=host_id)
    sql(zone, "update inventories set used = 0 where host_id != :host", host=host_id)

    assert kinds(zone) == ["over_capacity"]


def test_a_stored_capacity_that_nobody_computed_is_found(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)

    sql(zone, "update inventories set capacity = 80")

    (found,) = audit.run(zone)
    assert (found.kind, found.detail) == ("capacity_differs", "capacity 80, not 8")


@pytest.mark.parametrize("status", [InstanceStatus.ERROR, InstanceStatus.DELETED])
def test_a_claim_of_an_instance_that_has_ended_is_found(tmp_path: Path, status: InstanceStatus) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)

    sql(zone, "update instances set status = :status where uuid = :uuid", status=status.value, uuid=uuid)

    (found,) = audit.run(zone)
    assert (found.kind, str(found.subject)) == ("claim_without_instance", f"instance {uuid} place 1")


def test_a_claim_of_an_instance_that_is_missing_is_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)

    unchecked_sql(zone, "delete from instances where uuid = :uuid", uuid=uuid)

    assert kinds(zone) == ["claim_without_instance", "reservation_counts"]


def test_a_claim_that_is_not_the_present_place_is_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id, status=BUILD)
    sql(zone, "update reservations set state = 'open', next_work_at = :soon", soon=zone.clock.now() + 5)

    sql(zone, "update instances set attempt = 2 where uuid = :uuid", uuid=uuid)

    assert kinds(zone) == ["claim_without_instance"]


def test_a_deleted_instance_that_keeps_its_place_below_is_found(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    boot_below(zone, "child-1", status=InstanceStatus.DELETED)

    assert kinds(zone) == ["claim_without_instance"]


@pytest.mark.parametrize("status", [BUILD, ACTIVE, UNKNOWN])
@pytest.mark.parametrize("caller_id", ["", "parent-1"])
def test_an_instance_without_a_place_is_found(tmp_path: Path, status: InstanceStatus, caller_id: str) -> None:
    zone, _ = a_busy_zone(tmp_path)
    state = ReservationState.SERVED if caller_id else ReservationState.SETTLED
    put_reservation(zone, caller_id=caller_id, state=state)

    uuid = put_instance(zone, status=status, attempt=0, caller_id=caller_id)

    (found,) = audit.run(zone)
    assert (found.kind, str(found.subject)) == ("instance_without_place", f"instance {uuid}")


@pytest.mark.parametrize("state", [State.FAILED, State.GONE, State.RELEASED, State.RELEASING])
def test_an_instance_whose_place_is_over_is_found(tmp_path: Path, state: PlacementState) -> None:
    zone, _ = a_busy_zone(tmp_path)
    boot_below(zone, "child-1", state)

    assert kinds(zone) == ["instance_without_place"]


@pytest.mark.parametrize("settled", [True, False])
def test_two_built_places_of_an_instance_are_found(tmp_path: Path, settled: bool) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    reservation_id = instance_of(zone, uuid).reservation_id
    state = "settled" if settled else "open"
    sql(zone, "update reservations set state = :state, next_work_at = 1e12", state=state)

    put_place(
        zone, uuid, AskedChild("child-1", ()), number=2, state=State.CONFIRMING, reservation_id=reservation_id
    )

    assert kinds(zone) == ["claim_without_instance", "two_places"]


def test_a_second_hold_of_a_settled_boot_is_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)

    reservation_id = instance_of(zone, uuid).reservation_id
    put_place(
        zone, uuid, AskedChild("child-1", ()), number=2, state=State.HELD, reservation_id=reservation_id
    )

    assert kinds(zone) == ["two_places"]


def test_a_sealed_entry_that_was_used_twice_is_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    for _ in range(2):
        boot_on(zone, host_id)
    # The database refuses it; without its rule it can be planted.
    unchecked_sql(zone, "alter table placements rename to checked")
    unchecked_sql(zone, "create table placements as select * from checked")

    sql(
        zone, "update placements set entry_key = 'salt-1' where uuid in (select uuid from placements limit 2)"
    )

    (found,) = audit.run(zone)
    assert (found.kind, str(found.subject)) == ("entry_used_twice", "entry salt-1")


@pytest.mark.parametrize("state", [State.HELD, State.INTENDED])
def test_a_hold_long_over_is_found(tmp_path: Path, state: PlacementState) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_reservation(zone, caller_id="parent-1", state=ReservationState.SERVED)
    uuid = put_instance(zone, status=BUILD, caller_id="parent-1")
    where = ClaimedHost(host_id, ONE_VCPU) if state is State.HELD else AskedChild("child-1", ())
    put_place(zone, uuid, where, state=state, caller_id="parent-1")

    clock_of(zone).advance(30 + 2 * zone.conf.hold + audit.GRACE_S)
    late = kinds(zone)
    clock_of(zone).advance(1)

    assert late == []
    assert kinds(zone) == ["hold_overdue"]


def test_a_boot_that_nobody_works_on_is_found(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)
    put_reservation(zone, state=ReservationState.OPEN)
    put_instance(zone, status=BUILD, attempt=0)
    fresh = kinds(zone)

    clock_of(zone).advance(audit.GRACE_S + 1)
    overdue = kinds(zone)
    sql(zone, "update reservations set lease_expires_at = :until", until=zone.clock.now() - audit.GRACE_S)
    leased = kinds(zone)
    sql(zone, "update reservations set lease_expires_at = 0, next_work_at = :at", at=zone.clock.now())

    assert (fresh, overdue, leased) == ([], ["reservation_overdue"], [])
    assert kinds(zone) == []


@pytest.mark.parametrize("asked", [1, 3])
def test_a_boot_with_another_number_of_instances_is_found(tmp_path: Path, asked: int) -> None:
    zone, _ = a_busy_zone(tmp_path)
    put_reservation(zone, num_instances=asked)
    for _ in range(2):
        put_instance(zone, status=InstanceStatus.ERROR)

    (found,) = audit.run(zone)

    assert (found.kind, found.detail) == ("reservation_counts", f"2 instances of {asked}")


def test_a_boot_without_any_instance_is_found(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)

    put_reservation(zone)

    assert kinds(zone) == ["reservation_counts"]


def test_an_instance_of_no_reservation_is_found(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)

    uuid = put_instance(zone, status=InstanceStatus.ERROR, reservation_id=OTHER)

    (found,) = audit.run(zone)
    assert (found.kind, str(found.subject)) == ("reservation_counts", f"instance {uuid}")


def test_a_parents_reservation_may_be_built_in_part(tmp_path: Path) -> None:
    zone, _ = a_busy_zone(tmp_path)

    put_reservation(zone, caller_id="parent-1", num_instances=9, state=ReservationState.SERVED)

    assert kinds(zone) == []


def test_inconsistencies_come_in_order_of_kind_and_subject(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_reservation(zone)
    sql(zone, "update inventories set used = 99")

    assert kinds(zone) == ["over_capacity", "reservation_counts", "used_differs"]
    assert host_id in str(audit.run(zone)[0].subject)


# -- server groups -----------------------------------------------------------------------------------------


def test_groups_that_keep_their_policy_are_right(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    for _ in range(2):
        in_group(zone, host_id, GroupPolicy.AFFINITY, group_id="near")
        in_group(zone, host_id, GroupPolicy.ANTI_AFFINITY, 2, group_id="far")
        in_group(zone, host_id, GroupPolicy.SOFT_ANTI_AFFINITY, group_id="soft")
    put_group(zone, host_id, "near")

    assert kinds(zone) == []


def test_a_groups_place_without_an_instance_is_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    put_group(zone, host_id)

    assert kinds(zone) == ["group_place_unused"]


def test_an_affinity_group_without_a_place_is_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    in_group(zone, host_id, GroupPolicy.AFFINITY)

    assert kinds(zone) == ["group_place_missing"]


@pytest.mark.parametrize(("host", "child"), [("h2", None), ("", "child-1")])
def test_an_affinity_group_in_two_places_is_found(tmp_path: Path, host: str, child: str | None) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    (second,) = add_hosts(zone, a_form("h2"))
    in_group(zone, host_id, GroupPolicy.AFFINITY)
    put_group(zone, second if host else "", child_id=child)

    assert kinds(zone) == ["group_split"]


def test_a_host_with_too_many_of_an_anti_affinity_group_is_found(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    for _ in range(3):
        in_group(zone, host_id, GroupPolicy.ANTI_AFFINITY, 2)

    assert kinds(zone) == ["group_host_overfull"]


def test_groups_are_read_page_by_page_and_none_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    monkeypatch.setattr(audit_groups, "GROUPS_OF_A_PAGE", 2)
    for number in range(5):
        in_group(zone, host_id, GroupPolicy.AFFINITY, group_id=f"g{number}")

    found = zone.store.read(lambda tx: list(audit_groups.groups(tx)))

    assert [(group_id, len(members)) for (_, group_id), members in found] == [
        (f"g{number}", 1) for number in range(5)
    ]
    assert kinds(zone) == ["group_place_missing"] * 5


def test_another_parents_group_of_the_same_id_is_another_one(tmp_path: Path) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    in_group(zone, host_id, GroupPolicy.AFFINITY)
    sql(zone, "insert into group_places (caller_id, group_id, host_id) values ('other', 'g1', :h)", h=host_id)

    assert kinds(zone) == ["group_place_missing", "group_place_unused"]
