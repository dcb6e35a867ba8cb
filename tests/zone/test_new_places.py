"""Claims of instances that are placed together or not at all, on a host that has lost room meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.one_zone import RESERVATION, a_form, a_spec, a_zone, add_hosts, used_on
from zonesched.model.place import LocalPlace
from zonesched.services.placing import new_places
from zonesched.services.placing.new_places import CLAIM_LOST, Boot, NewPlace
from zonesched.services.zone import Zone
from zonesched.store import identity

UUIDS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(3)]


@pytest.fixture
def zone(tmp_path: Path) -> Iterator[Zone]:
    zone = a_zone(tmp_path)
    yield zone
    zone.stop()


@pytest.fixture
def host_id(zone: Zone) -> str:
    """A host that takes two of the three instances."""
    return add_hosts(zone, a_form("h1", VCPU=2, MEMORY_MB=8_192, DISK_GB=100))[0]


def claim(zone: Zone, host_id: str, *, whole: bool) -> dict[str, str]:
    """Claim for three instances; the reason code of each that has no place."""
    boot = Boot("caller-1", RESERVATION, a_spec(), hold_s=60.0, whole=whole)
    places = [NewPlace(uuid, 1, LocalPlace(host_id), retained_until=0.0) for uuid in UUIDS]
    return dict(
        zone.store.write(lambda tx: new_places.claim(zone, tx, identity.next_change(tx), boot, places).failed)
    )


def test_those_that_fit_are_claimed(zone: Zone, host_id: str) -> None:
    failed = claim(zone, host_id, whole=False)

    assert failed == {UUIDS[2]: CLAIM_LOST}
    assert used_on(zone, host_id)["VCPU"] == 2


def test_all_fail_together_and_what_some_had_claimed_is_given_back(zone: Zone, host_id: str) -> None:
    failed = claim(zone, host_id, whole=True)

    assert failed == dict.fromkeys(UUIDS, CLAIM_LOST)
    assert used_on(zone, host_id)["VCPU"] == 0
