"""Placements of one boot, inserted together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from tests.builders.one_zone import RESERVATION, a_form, a_zone, add_hosts, put_instance, put_reservation
from zonesched.model.placement import PlacementState
from zonesched.store import new_placements, placements
from zonesched.store.placements import AskedChild, ClaimedHost, Placement, Where

RESOURCES = {"VCPU": 1, "MEMORY_MB": 512}


def a_place(uuid: str, where: Where, **others: Any) -> Placement:
    state = PlacementState.HELD if isinstance(where, ClaimedHost) else PlacementState.INTENDED
    place = Placement(uuid, 1, "caller", RESERVATION, where, state, "", 30.0, 90.0)
    return replace(place, **others)


def test_each_placement_of_a_boot_is_as_it_was_made(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    put_reservation(zone, caller_id="caller")
    hosts = add_hosts(zone, a_form("h1", VCPU=9), a_form("h2", VCPU=9))
    uuids = [put_instance(zone, caller_id="caller") for _ in range(9)]
    failed: dict[str, Any] = {"state": PlacementState.FAILED, "reason": "claim_lost"}
    made = [
        a_place(uuids[0], ClaimedHost(hosts[0], RESOURCES)),
        a_place(uuids[1], AskedChild("child-1", ("a", "b"))),
        a_place(uuids[2], ClaimedHost(hosts[1], RESOURCES), entry_key="key-1"),
        a_place(uuids[3], AskedChild("child-2", ("c",)), entry_key="key-2"),
        a_place(uuids[4], AskedChild("child-1", ()), retained_until=91.0),
        a_place(uuids[5], ClaimedHost(hosts[0], RESOURCES), **failed),
        a_place(uuids[6], AskedChild("child-2", ("d",)), **failed),
        a_place(uuids[7], ClaimedHost(hosts[0], RESOURCES), number=2),
    ]

    zone.store.write(lambda tx: new_placements.insert_of_boot(tx, made))

    found = zone.store.read(lambda tx: placements.read_by_uuid(tx, uuids))
    assert sorted(found, key=str) == sorted(made, key=str)
    again = [a_place(uuid, ClaimedHost(hosts[0], RESOURCES), number=3, entry_key="key-1") for uuid in uuids]
    with pytest.raises(IntegrityError):
        zone.store.write(lambda tx: new_placements.insert_of_boot(tx, again[8:]))
    zone.stop()
