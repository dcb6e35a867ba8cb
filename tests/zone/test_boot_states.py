"""The state of a boot follows from the statuses of all its servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import RESERVATION, a_zone, put_instance, put_reservation
from zonesched.model.caller import Caller, Role
from zonesched.model.placement import InstanceStatus as Status
from zonesched.services.owners import reservations

ADMIN = Caller("admin-1", "admin", Role.ADMIN, "project-2")


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        ([Status.BUILD, Status.ACTIVE, Status.ERROR, Status.DELETED], "BUILD"),
        ([Status.UNKNOWN, Status.ACTIVE], "BUILD"),
        ([Status.ACTIVE, Status.ACTIVE], "ACTIVE"),
        ([Status.ACTIVE, Status.OFFLOADED, Status.DELETED], "ACTIVE"),
        ([Status.ACTIVE, Status.ERROR], "PARTIAL"),
        ([Status.OFFLOADED, Status.ERROR, Status.DELETED], "PARTIAL"),
        ([Status.ERROR, Status.DELETED], "ERROR"),
        ([Status.ERROR], "ERROR"),
        ([Status.DELETED, Status.DELETED], "DELETED"),
    ],
)
def test_a_boot_has_the_state_of_its_servers(tmp_path: Path, statuses: list[Status], state: str) -> None:
    zone = a_zone(tmp_path)
    put_reservation(zone, num_instances=len(statuses))
    for status in statuses:
        put_instance(zone, status=status)

    shown = reservations.show(zone, ADMIN, RESERVATION)
    listed, _ = reservations.list_boots(zone, ADMIN, "", 10, all_tenants=True)

    assert shown.state == state
    assert [boot.state for boot in listed] == ([] if state == "DELETED" else [state])
