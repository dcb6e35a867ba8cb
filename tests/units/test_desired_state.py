"""The table of actions, every cell, and what follows from desired and observed states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.desired_state import (
    MOVES,
    NEW,
    Action,
    Desired,
    Illegal,
    InstanceState,
    RebootType,
    Status,
    expected_status,
    is_news,
    judge,
    shown_status,
    task_state,
    told,
    why_illegal,
)
from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.observed_state import MoveCounts, Observed, Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import Image

ACTIVE = InstanceStatus.ACTIVE
RUNNING, STOPPED, PAUSED, SUSPENDED, OFFLOADED = Power


def at_rest(power: Power, reason: str = "") -> InstanceState:
    return InstanceState(Desired(3, power, 2), Observed(3, power, reason), rebooted_by=1)


IMAGE = Image("i-2", "newer", {"hw_architecture": "x86_64"})


def rebuilding(power: Power = Power.RUNNING) -> InstanceState:
    return at_rest(power).wanting(Desired(4, power, 2, rebuilds=1, image=IMAGE))


def rebooting(kind: RebootType) -> InstanceState:
    return InstanceState(Desired(4, RUNNING, 3, kind), Observed(3, RUNNING), rebooted_by=4)


STATE_IN: dict[Status, tuple[InstanceStatus, InstanceState]] = {
    Status.BUILD: (InstanceStatus.BUILD, NEW),
    Status.ACTIVE: (ACTIVE, at_rest(RUNNING)),
    Status.SHUTOFF: (ACTIVE, at_rest(STOPPED)),
    Status.PAUSED: (ACTIVE, at_rest(PAUSED)),
    Status.SUSPENDED: (ACTIVE, at_rest(SUSPENDED)),
    Status.REBOOT: (ACTIVE, rebooting(RebootType.SOFT)),
    Status.HARD_REBOOT: (ACTIVE, rebooting(RebootType.HARD)),
    Status.REBUILD: (ACTIVE, rebuilding()),
    Status.RESIZE: (ACTIVE, replace(at_rest(STOPPED), moves=MoveCounts(2, 1))),
    Status.ERROR: (InstanceStatus.ERROR, NEW),
    Status.DELETED: (InstanceStatus.DELETED, NEW),
    Status.UNKNOWN: (InstanceStatus.UNKNOWN, NEW),
    Status.SHELVED_OFFLOADED: (InstanceStatus.OFFLOADED, at_rest(OFFLOADED)),
}

TABLE = """
            BUILD ACTIVE    SHUTOFF   PAUSED    SUSPENDED REBOOT    HARD_REBOOT REBUILD RESIZE ERROR DELETED UNKNOWN OFFLOADED
os-start    -     -         running   -         -         -         -           -       -      -     -       -       -
os-stop     -     stopped   -         -         -         stopped   stopped     -       -      -     -       -       -
pause       -     paused    -         -         -         paused    paused      -       -      -     -       -       -
unpause     -     -         -         running   -         -         -           -       -      -     -       -       -
suspend     -     suspended -         -         -         suspended suspended   -       -      -     -       -       -
resume      -     -         -         -         running   -         -           -       -      -     -       -       -
reboot_SOFT -     running   -         -         -         -         -           -       -      -     -       -       -
reboot_HARD -     running   running   running   running   running   running     -       -      -     -       -       -
rebuild     -     running   stopped   -         -         -         -           -       -      -     -       -       -
shelve      -     offloaded offloaded offloaded offloaded offloaded offloaded   -       -      -     -       -       -
unshelve    -     -         -         -         -         -         -           -       -      -     -       -       running
migrate     -     moves     moves     -         -         -         -           -       -      -     -       -       -
"""  # noqa: E501


def cells() -> list[tuple[Action, Status, str]]:
    head, *lines = TABLE.strip().splitlines()
    statuses = [Status(name) if name != "OFFLOADED" else Status.SHELVED_OFFLOADED for name in head.split()]
    return [
        (Action(words[0].replace("_", " ")), status, power)
        for words in (line.split() for line in lines)
        for status, power in zip(statuses, words[1:], strict=True)
    ]


@pytest.mark.parametrize(("action", "status", "power"), cells())
def test_each_action_in_each_status(action: Action, status: Status, power: str) -> None:
    stored, state = STATE_IN[status]
    assert shown_status(stored, state) is status

    if action in MOVES:
        assert (why_illegal(action, stored, state) is None) == (power == "moves")
        return
    found = judge(action, stored, state)

    if power == "-":
        assert isinstance(found, Illegal)
    else:
        is_reboot = action in (Action.SOFT_REBOOT, Action.HARD_REBOOT)
        assert isinstance(found, Desired)
        assert (found.generation, found.power) == (state.desired.generation + 1, Power(power))
        before = 0 if action is Action.UNSHELVE else state.desired.reboots
        assert found.reboots == before + is_reboot


def test_a_rebuild_waits_for_no_other_action() -> None:
    stopping = NEW.wanting(Desired(1, STOPPED))

    assert judge(Action.REBUILD, ACTIVE, stopping, IMAGE) is Illegal.ACTION_UNDER_WAY


@pytest.mark.parametrize("power", [RUNNING, STOPPED])
def test_a_rebuild_has_a_status_until_it_is_done_or_refused(power: Power) -> None:
    state = rebuilding(power)
    done = state.observing(Observed(4, power, "", 1))
    refused = state.observing(state.refused("image_unfit"))
    after = at_rest(power)

    assert (shown_status(ACTIVE, state), task_state(ACTIVE, state)) == (Status.REBUILD, "rebuilding")
    assert shown_status(ACTIVE, done) is shown_status(ACTIVE, refused) is shown_status(ACTIVE, after)
    assert (state.image, done.image, refused.image) == (AS_BOOTED, IMAGE, AS_BOOTED)


def test_a_rebuild_that_was_refused_is_not_done_by_the_next_action() -> None:
    refused = rebuilding().observing(Observed(4, RUNNING, "rebuild_unsupported"))

    stop = judge(Action.STOP, ACTIVE, refused)
    again = judge(Action.REBUILD, ACTIVE, refused, IMAGE)

    assert stop == Desired(5, STOPPED, 2)
    assert again == Desired(5, RUNNING, 2, rebuilds=1, image=IMAGE)


def test_a_driver_that_knows_no_rebuilds_refuses_them() -> None:
    ignored = rebuilding().observing(Observed(4, RUNNING))

    assert ignored.observed == Observed(4, RUNNING, "rebuild_unsupported")
    assert (ignored.image, ignored.desired.rebuilds) == (AS_BOOTED, 0)


def test_a_rebuild_whose_instance_does_not_start_has_happened() -> None:
    ended = rebuilding().observing(Observed(4, STOPPED, "process_failed", 1))

    assert (ended.image, shown_status(ACTIVE, ended)) == (IMAGE, Status.SHUTOFF)
    assert judge(Action.START, ACTIVE, ended) == Desired(5, RUNNING, 2, rebuilds=1, image=IMAGE)


def test_a_child_keeps_its_image_unless_it_is_told_of_a_new_rebuild() -> None:
    here = Desired(4, RUNNING, rebuilds=1, image=IMAGE)
    other = Image("i-3", "newest")

    assert told(here, Desired(5, STOPPED, rebuilds=1)) == Desired(5, STOPPED, rebuilds=1, image=IMAGE)
    assert told(here, Desired(5, STOPPED, rebuilds=2)) == Desired(5, STOPPED, rebuilds=1, image=IMAGE)
    assert told(here, Desired(5, rebuilds=2, image=other)) == Desired(5, rebuilds=2, image=other)


def test_the_table_has_every_action_and_status() -> None:
    assert {(action, status) for action, status, _ in cells()} == {(a, s) for a in Action for s in Status}


def test_an_action_is_judged_by_where_the_earlier_ones_lead() -> None:
    stopping = NEW.wanting(Desired(1, STOPPED))

    assert isinstance(judge(Action.STOP, ACTIVE, stopping), Illegal)
    assert judge(Action.START, ACTIVE, stopping) == Desired(2, RUNNING)


def test_a_server_is_unshelved_once_it_is_offloaded() -> None:
    shelving = NEW.wanting(Desired(1, OFFLOADED))

    assert judge(Action.UNSHELVE, ACTIVE, shelving) is Illegal.STILL_SHELVING
    assert judge(Action.STOP, ACTIVE, shelving) is Illegal.WRONG_STATUS


def test_a_server_shows_that_it_is_offloaded_until_it_runs_again() -> None:
    unshelving = at_rest(OFFLOADED).wanting(Desired(4, RUNNING))

    for stored in (InstanceStatus.BUILD, ACTIVE):
        assert shown_status(stored, unshelving) is Status.SHELVED_OFFLOADED
        assert task_state(stored, unshelving) == "unshelving"


def test_a_server_whose_action_failed_is_judged_by_what_is_so() -> None:
    failed = InstanceState(Desired(1, SUSPENDED), Observed(1, RUNNING, "suspend_unsupported"))

    assert (shown_status(ACTIVE, failed), task_state(ACTIVE, failed)) == (Status.ACTIVE, "")
    assert judge(Action.STOP, ACTIVE, failed) == Desired(2, STOPPED)


@pytest.mark.parametrize(
    ("state", "task"),
    [
        (NEW, ""),
        (NEW.wanting(Desired(1, STOPPED)), "powering-off"),
        (NEW.wanting(Desired(1, PAUSED)), "pausing"),
        (NEW.wanting(Desired(1, SUSPENDED)), "suspending"),
        (at_rest(STOPPED).wanting(Desired(4, RUNNING, 2)), "powering-on"),
        (at_rest(PAUSED).wanting(Desired(4, RUNNING, 2)), "unpausing"),
        (at_rest(SUSPENDED).wanting(Desired(4, RUNNING, 2)), "resuming"),
        (at_rest(STOPPED).wanting(Desired(4, RUNNING, 3, RebootType.HARD)), "rebooting_hard"),
        (rebooting(RebootType.SOFT), "rebooting"),
        (replace(at_rest(STOPPED), moves=MoveCounts(1, 0)), "resize_migrating"),
        (rebooting(RebootType.SOFT).wanting(Desired(5, STOPPED, 3)), "powering-off"),
        (at_rest(STOPPED).wanting(Desired(4, OFFLOADED, 2)), "shelving"),
        (at_rest(OFFLOADED).wanting(Desired(4, RUNNING)), "unshelving"),
    ],
)
def test_the_task_follows_from_desired_and_observed(state: InstanceState, task: str) -> None:
    assert task_state(ACTIVE, state) == task
    assert task_state(InstanceStatus.ERROR, state) == ""


def test_a_reboot_is_over_when_its_generation_was_reached_or_superseded() -> None:
    state = rebooting(RebootType.SOFT).wanting(Desired(5, STOPPED, 3))
    reached = InstanceState(state.desired, Observed(5, STOPPED), state.rebooted_by)

    assert shown_status(ACTIVE, state) is Status.REBOOT
    assert shown_status(ACTIVE, reached) is Status.SHUTOFF


@pytest.mark.parametrize(
    ("observed", "news"),
    [
        (Observed(1, STOPPED), False),
        (Observed(2, RUNNING), False),
        (Observed(2, STOPPED, "ended_by_itself"), True),
        (Observed(2, STOPPED), False),
        (Observed(2, PAUSED, "driver_failed"), False),
        (Observed(3, PAUSED), True),
        (Observed(3, RUNNING, "pause_unsupported"), True),
        (Observed(4, PAUSED), False),
    ],
)
def test_only_a_later_report_is_news(observed: Observed, news: bool) -> None:
    state = InstanceState(Desired(3, PAUSED), Observed(2, RUNNING))

    assert is_news(state, observed) is news


POWERS = st.sampled_from(list(Power))


POWER_ACTIONS = [action for action in Action if action not in MOVES]


@given(st.lists(st.sampled_from(POWER_ACTIONS), max_size=6), st.integers(0, 6), POWERS)
def test_any_actions_lead_to_one_of_four_statuses(actions: list[Action], seen: int, power: Power) -> None:
    state = NEW
    for action in actions:
        found = judge(action, ACTIVE, state)
        if isinstance(found, Desired):
            assert found.generation == state.desired.generation + 1
            state = state.wanting(found)
    before = state
    state = InstanceState(state.desired, Observed(state.desired.generation, power), state.rebooted_by)

    assert task_state(ACTIVE, state) == ""
    assert expected_status(ACTIVE, state) is shown_status(ACTIVE, state)
    assert before.is_pending == bool(before.desired.generation)
