"""Confirms that are sent to a child twice at the same time, and of which one stays without an answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.one_zone import a_zone, instance_of, put_instance, put_place, put_reservation, sql
from tests.builders.stores import statements_written_by
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.placing import child_calls
from zonesched.services.zone import Zone
from zonesched.store import placements
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction


def a_confirm(tmp_path: Path, since: PlacementState) -> tuple[Zone, Placement]:
    """A place as it was read to confirm it; `since`: its state now."""
    zone = a_zone(tmp_path)
    put_reservation(zone)
    uuid = put_instance(zone, status=InstanceStatus.BUILD)
    asked = put_place(zone, uuid, AskedChild("child-1", ("a",)), state=PlacementState.CONFIRMING)
    sql(zone, "update placements set state = :state where uuid = :uuid", state=since.value, uuid=uuid)
    return zone, asked


@pytest.mark.parametrize(
    ("since", "status"),
    [(PlacementState.CONFIRMING, InstanceStatus.UNKNOWN), (PlacementState.CONFIRMED, InstanceStatus.BUILD)],
)
def test_an_instance_is_unknown_only_while_no_confirm_of_it_was_answered(
    tmp_path: Path, since: PlacementState, status: InstanceStatus
) -> None:
    # given a confirm in a child that cannot be reached, and perhaps another that was answered
    zone, asked = a_confirm(tmp_path, since)

    child_calls.send_confirms(zone, [asked])

    assert instance_of(zone, asked.uuid).status is status


@pytest.mark.parametrize(
    ("since", "postponed"), [(PlacementState.CONFIRMING, True), (PlacementState.RELEASING, False)]
)
def test_a_place_that_is_to_be_told_something_else_since_does_not_wait_for_that(
    tmp_path: Path, since: PlacementState, postponed: bool
) -> None:
    # given a confirm in a child that cannot be reached, and perhaps an owner who has deleted it meanwhile
    zone, asked = a_confirm(tmp_path, since)
    (before,) = sql(zone, "SELECT calls, next_call_at FROM placements")

    child_calls.send_confirms(zone, [asked])

    (after,) = sql(zone, "SELECT calls, next_call_at FROM placements")
    assert (after != before) == postponed


@pytest.mark.sqlite
def test_a_large_boot_without_an_answer_keeps_other_writers_waiting_for_one_statement(tmp_path: Path) -> None:
    # given confirms of a boot that were sent once, and one that was sent twice
    zone = a_zone(tmp_path)
    put_reservation(zone)
    asked = [
        put_place(
            zone,
            put_instance(zone, status=InstanceStatus.BUILD),
            AskedChild("child-1", ("a",)),
            state=PlacementState.CONFIRMING,
        )
        for _ in range(20)
    ]
    some = [replace(asked[0], calls=1), *asked[1:]]

    def count_calls(tx: Transaction) -> None:
        placements.postpone(tx, some, lambda calls: 100.0 * calls)

    statements = statements_written_by(zone.store, lambda: zone.store.write(count_calls))

    assert len(statements) == 2
    counted = "SELECT calls, next_call_at, count(*) FROM placements GROUP BY 1, 2 ORDER BY 1"
    assert sql(zone, counted) == [(1, 100.0, 19), (2, 200.0, 1)]
