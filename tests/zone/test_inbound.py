"""Builds that parents sent, and the places that they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import RESERVATION, a_zone, put_instance, put_place, put_reservation
from zonesched.model.placement import PlacementState
from zonesched.services.zone import Zone
from zonesched.store import inbound
from zonesched.store.inbound import InboundBuild
from zonesched.store.placements import AskedChild

PARENT = "parent-user"


def a_build(uuid: str, attempt: int, number: int, caller_id: str = PARENT) -> InboundBuild:
    return InboundBuild(uuid, caller_id, attempt, RESERVATION, number, (), 90.0)


def two_builds(zone: Zone) -> str:
    """An instance of a parent, of whose two builds the first one has the place; somebody else has one too."""
    put_reservation(zone, caller_id=PARENT)
    uuid = put_instance(zone, caller_id=PARENT)
    put_place(zone, uuid, AskedChild("child-1", ("a",)), caller_id=PARENT)
    builds = [a_build(uuid, 1, 1), a_build(uuid, 2, 0), a_build(uuid, 1, 1, "somebody")]
    zone.store.write(lambda tx: inbound.insert(tx, builds))
    return uuid


def places(zone: Zone, uuid: str, caller_id: str = PARENT) -> dict[int, object]:
    found = zone.store.read(lambda tx: inbound.known_attempts(tx, caller_id, [uuid]))
    return {
        key.attempt: known.place and (known.place.number, known.place.state) for key, known in found.items()
    }


@pytest.mark.parametrize("attempt", [2, 3], ids=["a known build", "a new one"])
def test_a_place_that_is_given_to_a_build_is_of_no_other_one(tmp_path: Path, attempt: int) -> None:
    zone = a_zone(tmp_path)
    uuid = two_builds(zone)

    zone.store.write(lambda tx: inbound.give_place(tx, a_build(uuid, attempt, 1)))

    has_place = (1, PlacementState.CONFIRMED)
    assert places(zone, uuid) == {1: None, 2: None} | {attempt: has_place}
    build = zone.store.read(lambda tx: inbound.of_place(tx, PARENT, uuid, 1))
    assert build is not None and build.attempt == attempt
    assert places(zone, uuid, "somebody") == {1: has_place}
