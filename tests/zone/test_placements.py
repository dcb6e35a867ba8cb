"""Statements that read or write several placements at once are about those that they name alone."""

from __future__ import annotations

from pathlib import Path

from tests.builders.clock import FakeClock
from tests.builders.one_zone import (
    a_form,
    a_zone,
    add_hosts,
    places_of,
    put_instance,
    put_place,
    put_reservation,
    sql,
)
from zonesched.model.observed_state import MoveCounts
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.zone import Zone
from zonesched.store import child_placements, instance_states, placements
from zonesched.store.instance_states import StoredState
from zonesched.store.placements import AskedChild, ClaimedHost

CONFIRMED, HELD = PlacementState.CONFIRMED, PlacementState.HELD
CHILD = AskedChild("child-1", ("a",))


def in_child(zone: Zone, *states: PlacementState, until: float | None = None) -> str:
    """An instance whose places have these states, the last of them its present one."""
    uuid = put_instance(zone, attempt=len(states))
    for number, state in enumerate(states, 1):
        put_place(zone, uuid, CHILD, number=number, state=state, hold_expires_at=until)
    return uuid


def moved(zone: Zone, uuid: str, times: int) -> str:
    row = StoredState(uuid, built_at=1.0).moving(MoveCounts(times, times))
    zone.store.write(lambda tx: instance_states.write(tx, [row], known=()))
    return uuid


def test_present_places_without_fault_are_of_instances_without_a_reason_that_never_moved(
    tmp_path: Path,
) -> None:
    # given
    zone = a_zone(tmp_path)
    put_reservation(zone, num_instances=5)
    plain, later = in_child(zone, CONFIRMED), in_child(zone, PlacementState.FAILED, HELD)
    acted_on, has_moved = moved(zone, in_child(zone, CONFIRMED), 0), moved(zone, in_child(zone, CONFIRMED), 1)
    failed = in_child(zone, CONFIRMED)
    sql(zone, "UPDATE instances SET reason = 'build_failed' WHERE uuid = :uuid", uuid=failed)
    # when
    every = [plain, later, acted_on, has_moved, failed]
    found = zone.store.read(lambda tx: placements.without_fault(tx, every))
    # then
    active = InstanceStatus.ACTIVE.value
    assert found == {
        (plain, 1): (CONFIRMED.value, active),
        (later, 2): (HELD.value, active),
        (acted_on, 1): (CONFIRMED.value, active),
    }


def test_holds_are_shortened_that_are_named_and_end_later(tmp_path: Path) -> None:
    # given
    zone = a_zone(tmp_path, FakeClock())
    put_reservation(zone, num_instances=4)
    now = zone.clock.now()
    long, other = in_child(zone, HELD, until=now + 30), in_child(zone, HELD, until=now + 30)
    short, built = in_child(zone, HELD, until=now + 5), in_child(zone, CONFIRMED, until=now + 30)
    twice = in_child(zone, HELD, HELD, until=now + 30)
    # when
    keys = [(long, 1), (short, 1), (built, 1), (twice, 2)]
    zone.store.write(lambda tx: placements.shorten_holds(tx, keys, now + 10))
    # then
    ends = {
        uuid: [place.hold_expires_at - now for place in places_of(zone, uuid)]
        for uuid in (long, other, short, built, twice)
    }
    assert ends == {long: [10], other: [30], short: [5], built: [30], twice: [30, 10]}


def test_the_places_in_a_child_are_counted_with_ended_ones_and_none_of_others(tmp_path: Path) -> None:
    # given one present place, one that ended, and one of an instance that is in another child now
    zone = a_zone(tmp_path)
    put_reservation(zone, num_instances=4)
    here, other = in_child(zone, PlacementState.FAILED, CONFIRMED), put_instance(zone, attempt=2)
    put_place(zone, other, CHILD, state=PlacementState.RELEASED)
    put_place(zone, other, AskedChild("child-2", ("a",)), number=2)
    (host_id,) = add_hosts(zone, a_form("host-1"))
    put_place(zone, put_instance(zone), ClaimedHost(host_id, {"VCPU": 1}))
    # when, then
    count = child_placements.count_in_child
    of_each = [zone.store.read(lambda tx, i=i: count(tx, f"child-{i}")) for i in (1, 2, 3)]
    assert of_each == [3, 1, 0]
    assert zone.store.read(child_placements.count_in_children) == 4
    assert zone.store.read(lambda tx: child_placements.living_in_child(tx, "child-1")) == {here: 2}
