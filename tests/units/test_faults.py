"""A parent gets reasons by stable codes alone; a driver's own text stays in its zone."""

from __future__ import annotations

import pytest

from zonesched.model.observed_state import Observed
from zonesched.model.placement import BuildState, InstanceChange, InstanceStatus
from zonesched.services.select.faults import change_for_parent

CONFIRMED, FAILED = BuildState.CONFIRMED, BuildState.FAILED
ACTIVE, DELETED, ERROR = InstanceStatus.ACTIVE, InstanceStatus.DELETED, InstanceStatus.ERROR
OWN_TEXT = "disk-7 of host-3 is full"


@pytest.mark.parametrize(
    ("status", "state", "of_own_text"),
    [
        (ERROR, CONFIRMED, "ended_on_host"),
        (DELETED, FAILED, "build_failed"),
        (ERROR, FAILED, "build_failed"),
    ],
)
@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (OWN_TEXT, None),
        ("ended_on_host", "ended_on_host"),
        ("hold_expired", "hold_expired"),
        ("", ""),
    ],
)
def test_a_parent_is_told_why_an_instance_has_ended_by_a_stable_code(
    status: InstanceStatus, state: BuildState, of_own_text: str, reason: str, told: str | None
) -> None:
    change = InstanceChange("a-1", 1, status, state, reason)

    assert change_for_parent(change).reason == (of_own_text if told is None else told)


@pytest.mark.parametrize(
    ("reason", "told"), [(OWN_TEXT, "driver_failed"), ("image_unfit", "image_unfit"), ("", "")]
)
def test_a_parent_is_told_why_an_action_has_failed_by_a_stable_code(reason: str, told: str) -> None:
    change = InstanceChange("a-1", 1, ACTIVE, CONFIRMED, "", Observed(3, reason=reason))

    reported = change_for_parent(change).observed

    assert reported == Observed(3, reason=told)
