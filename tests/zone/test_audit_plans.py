"""An audit looks at each instance as seldom as it can: most have one place, and never moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.audited_zone import a_busy_zone
from tests.builders.clock import FakeClock
from tests.builders.many_instances import many_instances
from tests.builders.one_zone import a_zone, boot_on, instance_of, put_place, sql
from tests.builders.query_plans import sqlite_plans, sqlite_steps
from zonesched.model.placement import PlacementState
from zonesched.services.zone import Zone
from zonesched.store import audit, audit_moves
from zonesched.store.placements import ClaimedHost


def many_places(zone: Zone) -> None:
    """A thousand instances with one place each."""
    many_instances(zone)
    columns = "uuid, number, caller_id, reservation_id, kind, host_id, blobs, resources, state, reason"
    sql(
        zone,
        f"INSERT INTO placements ({columns}, hold_expires_at, retained_until, next_call_at, calls)"
        " SELECT uuid, 1, caller_id, reservation_id, 'host', 'h1', '[]', '{\"VCPU\": 1}', 'confirmed', '',"
        " 0, 0, 0, 0 FROM instances",
    )


@pytest.mark.sqlite
def test_second_places_are_looked_for_by_the_key_alone(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_places(zone)

    plans = sqlite_plans(zone.store, audit.two_places)

    of_key = "USING COVERING INDEX sqlite_autoindex_placements_1"
    assert [plan for plan in plans if plan.startswith("SCAN") and of_key not in plan] == []
    # A look at each place for another one took 250.
    assert sqlite_steps(zone.store, audit.two_places) < 60


@pytest.mark.sqlite
def test_moves_are_counted_from_the_states_of_instances_on(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_places(zone)

    assert sqlite_steps(zone.store, lambda tx: list(audit_moves.move_inconsistencies(tx, 0.0))) < 20


@pytest.mark.parametrize("at_once", [1, 2, 50_000])
def test_claims_are_summed_up_however_many_are_counted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(audit, "COUNTED_AT_ONCE", at_once)
    zone, host_id = a_busy_zone(tmp_path)
    for _ in range(3):
        boot_on(zone, host_id)
    right = zone.store.read(audit.used_differs)
    sql(zone, "UPDATE inventories SET used = used + 1 WHERE resource_class = 'VCPU'")

    (wrong,) = zone.store.read(audit.used_differs)

    assert (right, wrong.detail) == ([], "used is 5, claims take 4")


@pytest.mark.parametrize("number", [0, 2, 5])
def test_a_second_place_is_found_whatever_its_number(tmp_path: Path, number: int) -> None:
    zone, host_id = a_busy_zone(tmp_path)
    uuid = boot_on(zone, host_id)
    reservation_id, where = instance_of(zone, uuid).reservation_id, ClaimedHost(host_id, {"VCPU": 1})
    state = PlacementState.CONFIRMED
    put_place(zone, uuid, where, number=number, state=state, reservation_id=reservation_id)

    assert [found.kind for found in zone.store.read(audit.two_places)] == ["two_places"]
