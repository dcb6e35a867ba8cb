"""The step that a pending instance waits for, by the state of its place and of its boot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders.spec_bodies import a_spec
from zonesched.model.pending_step import NextStep, PendingStep
from zonesched.model.placement import PlacementState as State
from zonesched.services.owners.pending_steps import pending_steps
from zonesched.services.select.faults import NOT_ALL_ANSWERED
from zonesched.store import reservations
from zonesched.store.pending_instances import PendingInstances
from zonesched.store.reservations import Reservation, ReservationState

NOW = 1000.0
NAMES = {"c1": "eu", "c2": "us"}


def a_boot(
    state: ReservationState = ReservationState.OPEN, reason: str = "", due_at: float = 0.0
) -> Reservation:
    boot = reservations.of_request(
        a_spec(), reservation_id="r", caller_id="z", user_id="u", min_count=1, state=state, now=NOW
    )
    return replace(boot, reason=reason, next_work_at=due_at)


def step_of(boot: Reservation, state: State) -> NextStep:
    (line,) = pending_steps(boot, [PendingInstances(state, "", 3)], {}, NOW)
    assert line.count == 3
    return line.step


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (State.INTENDED, NextStep.HOLD_ANSWER),
        (State.CANCELLING, NextStep.CANCEL_ANSWER),
        (State.HELD, NextStep.OTHER_INSTANCES),
        (State.CONFIRMING, NextStep.CONFIRM_ANSWER),
        (State.CONFIRMED, NextStep.BUILD),
        *[
            (gone, NextStep.BOOT_WORKER)
            for gone in (State.GONE, State.FAILED, State.RELEASED, State.RELEASING)
        ],
    ],
)
def test_the_step_follows_from_the_state_of_the_place(state: State, step: NextStep) -> None:
    assert step_of(a_boot(), state) is step


def test_what_a_parent_has_sent_is_held_for_the_parent() -> None:
    assert step_of(a_boot(ReservationState.SERVED), State.HELD) is NextStep.PARENT_CONFIRM


@pytest.mark.parametrize(
    ("reason", "due_at", "step"),
    [
        (NOT_ALL_ANSWERED, NOW + 1.0, NextStep.NEXT_SELECT),
        (NOT_ALL_ANSWERED, NOW, NextStep.BOOT_WORKER),
        ("", NOW + 1.0, NextStep.BOOT_WORKER),
        ("no_valid_host", NOW + 1.0, NextStep.BOOT_WORKER),
    ],
)
def test_a_select_is_waited_for_only_if_a_zone_did_not_answer_and_until_it_is_due(
    reason: str, due_at: float, step: NextStep
) -> None:
    assert step_of(a_boot(reason=reason, due_at=due_at), State.GONE) is step


def test_lines_come_in_the_order_of_the_steps_then_of_the_names_of_child_zones() -> None:
    pending = [
        PendingInstances(State.CONFIRMED, "c2", 1),
        PendingInstances(State.CONFIRMED, "c1", 2),
        PendingInstances(State.GONE, "c2", 4),
        PendingInstances(State.FAILED, "c1", 8),
        PendingInstances(State.CONFIRMING, "c2", 16),
    ]
    assert pending_steps(a_boot(), pending, NAMES, NOW) == [
        PendingStep(NextStep.BOOT_WORKER, 12),
        PendingStep(NextStep.CONFIRM_ANSWER, 16, "us"),
        PendingStep(NextStep.BUILD, 2, "eu"),
        PendingStep(NextStep.BUILD, 1, "us"),
    ]


def test_without_names_local_hosts_and_child_zones_are_one_line() -> None:
    pending = [PendingInstances(State.CONFIRMED, child_id, 2) for child_id in ("", "c1", "c2")]
    assert pending_steps(a_boot(), pending, {}, NOW) == [PendingStep(NextStep.BUILD, 6)]
