"""The end of an instance whose hold expires unconfirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import (
    a_zone,
    instance_of,
    places_of,
    put_instance,
    put_place,
    put_reservation,
    sql,
)
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.placing import placement_moves, reaper
from zonesched.services.zone import Zone
from zonesched.store import identity
from zonesched.store.placements import AskedChild

PARENT = "parent-user"
OVER = 1.0


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return a_zone(tmp_path)


def sent_by_a_parent(zone: Zone, attempt: int) -> str:
    """An instance that a parent sent, being built at its place of this number."""
    put_reservation(zone, caller_id=PARENT)
    return put_instance(zone, caller_id=PARENT, status=InstanceStatus.BUILD, attempt=attempt)


def test_what_is_held_and_then_confirmed_ends_when_its_child_said(zone: Zone) -> None:
    # given a place that this zone would hold for 30 seconds
    put_reservation(zone)
    uuid = put_instance(zone, status=InstanceStatus.BUILD)
    place = put_place(zone, uuid, AskedChild("child-1", ("a",)), state=PlacementState.INTENDED)
    ends_at = place.hold_expires_at - 10.0
    # when its child holds it for 20, and it is to be confirmed
    for to, until in ((PlacementState.HELD, ends_at), (PlacementState.CONFIRMING, 0.0)):
        (place,) = zone.store.write(
            lambda tx, place=place, to=to, until=until: placement_moves.advance(
                tx, identity.next_change(tx), zone.uuid, [place], to, zone.clock.now(), hold_expires_at=until
            )
        )
        # then what is returned is what the rows say
        (row,) = places_of(zone, uuid)
        assert (place.state, place.hold_expires_at) == (row.state, row.hold_expires_at) == (to, ends_at)


@pytest.mark.parametrize("state", [PlacementState.CANCELLING, PlacementState.HELD])
def test_an_earlier_place_that_ends_late_is_not_the_end_of_its_instance(
    zone: Zone, state: PlacementState
) -> None:
    # given an instance whose first place a silent child was to let go of, and which was built elsewhere
    uuid = sent_by_a_parent(zone, attempt=2)
    put_place(zone, uuid, AskedChild("child-1", ("a",)), state=state, caller_id=PARENT, hold_expires_at=OVER)
    built = AskedChild("child-2", ("b",))
    put_place(zone, uuid, built, number=2, caller_id=PARENT)
    # when the first hold is over
    reaper.reap(zone)
    reaper.reap(zone)
    # then it has ended, and the instance is what its present place is
    assert [p.state for p in places_of(zone, uuid)] == [PlacementState.GONE, PlacementState.CONFIRMED]
    assert instance_of(zone, uuid).status is InstanceStatus.BUILD


def test_the_end_of_its_present_place_is_the_end_of_a_parents_instance(zone: Zone) -> None:
    uuid = sent_by_a_parent(zone, attempt=1)
    place = AskedChild("child-1", ("a",))
    put_place(zone, uuid, place, state=PlacementState.CANCELLING, caller_id=PARENT, hold_expires_at=OVER)

    reaper.reap(zone)

    ended = instance_of(zone, uuid)
    assert (ended.status, ended.reason) == (InstanceStatus.DELETED, "hold_expired")


def test_a_hold_that_was_confirmed_since_it_was_read_is_not_among_those_that_ended(zone: Zone) -> None:
    late = sent_by_a_parent(zone, attempt=1)
    confirmed = put_instance(zone, caller_id=PARENT, status=InstanceStatus.BUILD, attempt=1)
    for uuid in (late, confirmed):
        child = AskedChild("child-1", ("a",))
        put_place(zone, uuid, child, state=PlacementState.HELD, caller_id=PARENT, hold_expires_at=OVER)
    read = [place for uuid in (late, confirmed) for place in places_of(zone, uuid)]
    sql(zone, "update placements set state = 'confirmed' where uuid = :uuid", uuid=confirmed)

    ended = zone.store.write(lambda tx: reaper.end_holds(tx, identity.next_change(tx), zone.uuid, read, OVER))

    assert ended == {(late, 1)}
    assert [place.state for place in places_of(zone, confirmed)] == [PlacementState.CONFIRMED]


@pytest.mark.parametrize("status", [InstanceStatus.ERROR, InstanceStatus.OFFLOADED])
def test_a_parents_instance_that_is_not_being_built_keeps_its_status_when_its_place_ends(
    zone: Zone, status: InstanceStatus
) -> None:
    put_reservation(zone, caller_id=PARENT)
    uuid = put_instance(zone, caller_id=PARENT, status=status)
    left = put_place(
        zone, uuid, AskedChild("child-1", ("a",)), state=PlacementState.RELEASING, caller_id=PARENT
    )

    zone.store.write(
        lambda tx: placement_moves.advance(
            tx, identity.next_change(tx), zone.uuid, [left], PlacementState.RELEASED, zone.clock.now()
        )
    )

    assert [p.state for p in places_of(zone, uuid)] == [PlacementState.RELEASED]
    assert instance_of(zone, uuid).status is status
