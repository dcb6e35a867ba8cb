"""The table of actions, every cell, and what follows from desired and observed states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.action_table import Action, Illegal, at_new_place, judge, why_illegal
from zonesched.model.desired_call import told, with_image
from zonesched.model.desired_state import NEW, Desired, InstanceState, RebootType, is_news
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.observed_state import MoveCounts, Observed, Power, Resizes
from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import Flavor, Image
from zonesched.model.shown_status import Status, expected_status, shown_status
from zonesched.model.task_state import task_state

ACTIVE = InstanceStatus.ACTIVE
RUNNING, STOPPED, PAUSED, SUSPENDED, OFFLOADED = Power


def at_rest(power: Power, reason: str = "") -> InstanceState:
    return InstanceState(Desired(3, power, 2), Observed(3, power, reason), rebooted_by=1)


IMAGE = Image("i-2", "newer", {"hw_architecture": "x86_64"})


def rebuilding(power: Power = Power.RUNNING) -> InstanceState:
    return at_rest(power).wanting(Desired(4, power, 2, rebuilds=1, image=IMAGE))


def rebooting(kind: RebootType) -> InstanceState:
    return InstanceState(Desired(4, RUNNING, 3, kind), Observed(3, RUNNING), rebooted_by=4)


VERIFYING = InstanceState(Desired(3, resizes=Resizes(1)), Observed(3, resizes=Resizes(1)))
"""A server that runs with another flavor, which its owner has yet to confirm."""

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
    Status.VERIFY_RESIZE: (ACTIVE, VERIFYING),
    Status.REVERT_RESIZE: (ACTIVE, replace(VERIFYING, desired=Desired(4, resizes=Resizes(1, 0, 1)))),
    Status.ERROR: (InstanceStatus.ERROR, NEW),
    Status.DELETED: (InstanceStatus.DELETED, NEW),
    Status.UNKNOWN: (InstanceStatus.UNKNOWN, NEW),
    Status.SHELVED_OFFLOADED: (InstanceStatus.OFFLOADED, at_rest(OFFLOADED)),
    Status.SOFT_DELETED: (ACTIVE, replace(at_rest(STOPPED), reclaim_at=900.0)),
}

TABLE = """
              BUILD ACTIVE    SHUTOFF   PAUSED    SUSPENDED REBOOT    HARD_REBOOT REBUILD RESIZE VERIFY_RESIZE REVERT_RESIZE ERROR DELETED UNKNOWN OFFLOADED SOFT_DELETED
os-start      -     -         running   -         -         -         -           -       -      -             -             -     -       -       -        -
os-stop       -     stopped   -         -         -         stopped   stopped     -       -      -             -             -     -       -       -        -
pause         -     paused    -         -         -         paused    paused      -       -      -             -             -     -       -       -        -
unpause       -     -         -         running   -         -         -           -       -      -             -             -     -       -       -        -
suspend       -     suspended -         -         -         suspended suspended   -       -      -             -             -     -       -       -        -
resume        -     -         -         -         running   -         -           -       -      -             -             -     -       -       -        -
reboot_SOFT   -     running   -         -         -         -         -           -       -      -             -             -     -       -       -        -
reboot_HARD   -     running   running   running   running   running   running     -       -      -             -             -     -       -       -        -
rebuild       -     running   stopped   -         -         -         -           -       -      -             -             -     -       -       -        -
shelve        -     offloaded offloaded offloaded offloaded offloaded offloaded   -       -      -             -             -     -       -       -        -
unshelve      -     -         -         -         -         -         -           -       -      -             -             -     -       -       running  -
migrate       -     moves     moves     -         -         -         -           -       -      -             -             -     -       -       -        moves
resize        -     running   stopped   -         -         -         -           -       -      -             -             -     -       -       -        -
confirmResize -     -         -         -         -         -         -           -       -      running       -             -     -       -       -        -
revertResize  -     -         -         -         -         -         -           -       -      running       -             -     -       -       -        -
delete        -     stopped   stopped   stopped   stopped   stopped   stopped     -       -      -             -             -     -       -       -         -
restore       -     -         -         -         -         -         -           -       -      -             -             -     -       -       -         running
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

    if action is Action.MIGRATE:
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
        assert found.reboots == (found.generation if is_reboot else before)


def test_a_rebuild_waits_for_no_other_action() -> None:
    stopping = NEW.wanting(Desired(1, STOPPED))

    assert judge(Action.REBUILD, ACTIVE, stopping, image=IMAGE) is Illegal.ACTION_UNDER_WAY


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
    again = judge(Action.REBUILD, ACTIVE, refused, image=IMAGE)

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


LARGE = Flavor("large", "large", 4, 4096, 10)


def resized(*actions: Action, power: Power = RUNNING) -> InstanceState:
    """A server after a resize and these actions, each reached before the next."""
    state = at_rest(power)
    for action in (Action.RESIZE, *actions):
        desired = judge(action, ACTIVE, state, flavor=LARGE)
        assert isinstance(desired, Desired)
        state = state.wanting(desired)
        state = state.observing(Observed(desired.generation, power, resizes=desired.resizes))
    return state


def test_a_resize_is_shown_from_its_beginning_to_its_confirmation() -> None:
    desired = judge(Action.RESIZE, ACTIVE, at_rest(RUNNING), flavor=LARGE)
    assert isinstance(desired, Desired)
    asked = at_rest(RUNNING).wanting(desired)
    moving = replace(asked, moves=MoveCounts(1, 0))
    done = resized()
    reverting = judge(Action.REVERT_RESIZE, ACTIVE, done)
    assert isinstance(reverting, Desired)

    seen = [
        (shown_status(ACTIVE, state), expected_status(ACTIVE, state), task_state(ACTIVE, state))
        for state in (asked, moving, done, done.wanting(reverting), resized(Action.CONFIRM_RESIZE))
    ]

    assert seen == [
        (Status.RESIZE, Status.RESIZE, "resize_prep"),
        (Status.RESIZE, Status.RESIZE, "resize_migrating"),
        (Status.VERIFY_RESIZE, Status.VERIFY_RESIZE, ""),
        (Status.REVERT_RESIZE, Status.REVERT_RESIZE, "resize_reverting"),
        (Status.ACTIVE, Status.ACTIVE, ""),
    ]


@pytest.mark.parametrize("power", [RUNNING, STOPPED])
def test_a_server_has_its_new_flavor_once_it_is_built_with_it(power: Power) -> None:
    done = resized(power=power)
    confirmed, reverted = (
        resized(action, power=power) for action in (Action.CONFIRM_RESIZE, Action.REVERT_RESIZE)
    )

    assert (done.present_flavor, done.flavor) == (LARGE, AS_BOOTED)
    assert (confirmed.present_flavor, confirmed.desired.flavor) == (LARGE, LARGE)
    assert (reverted.present_flavor, reverted.desired.flavor) == (AS_BOOTED, AS_BOOTED)
    assert shown_status(ACTIVE, confirmed) is shown_status(ACTIVE, at_rest(power))


def test_a_resize_that_was_refused_is_not_done_by_the_next_action() -> None:
    desired = judge(Action.RESIZE, ACTIVE, at_rest(RUNNING), flavor=LARGE)
    assert isinstance(desired, Desired)
    asked = at_rest(RUNNING).wanting(desired)
    refused = asked.observing(asked.refused("resize_no_valid_host"))
    stop = judge(Action.STOP, ACTIVE, refused)

    assert isinstance(stop, Desired)
    assert (stop.resizes, stop.flavor) == (Resizes(), AS_BOOTED)
    assert shown_status(ACTIVE, refused) is Status.ACTIVE


def test_a_resized_server_comes_to_a_new_place_with_the_flavor_that_it_has() -> None:
    for state in (resized(), resized(Action.CONFIRM_RESIZE)):
        gone = state.observing(Observed(state.desired.generation, Power.OFFLOADED))

        anew = at_new_place(gone, RUNNING)

        assert (anew.flavor, anew.resizes, gone.observed.resizes) == (LARGE, Resizes(), Resizes())


def test_a_child_is_told_of_a_flavor_with_a_new_resize_alone() -> None:
    here = Desired(4, resizes=Resizes(1, 1), flavor=LARGE)
    other = Flavor("huge", "huge", 8, 8192, 10)
    again = Desired(5, resizes=Resizes(2, 1), flavor=other)

    assert told(here, Desired(5, STOPPED, resizes=Resizes(1, 1))).flavor == LARGE
    assert told(here, again) == again
    assert told(here, replace(again, flavor=AS_BOOTED)) == Desired(5, resizes=Resizes(1, 1), flavor=LARGE)
    assert told(again, Desired(6, resizes=Resizes(2, 2))) == Desired(6, resizes=Resizes(2, 2), flavor=other)


@pytest.mark.parametrize("older", [Resizes(), Resizes(1, 1), Resizes(2), Resizes(3, reverted=1)])
def test_a_child_keeps_resizes_that_its_restored_parent_has_not_heard_of(older: Resizes) -> None:
    here = Desired(4, resizes=Resizes(2, 1), flavor=LARGE)
    other = Flavor("huge", "huge", 8, 8192, 10)

    stored = told(here, Desired(5, STOPPED, resizes=older, flavor=other))

    assert stored == Desired(5, STOPPED, resizes=Resizes(2, 1), flavor=LARGE)


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


NO_POWERS = {Action.MIGRATE, Action.RESIZE, Action.CONFIRM_RESIZE, Action.REVERT_RESIZE}
POWER_ACTIONS = [action for action in Action if action not in NO_POWERS]


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


@pytest.mark.parametrize("generation", [4, 5])
@pytest.mark.parametrize(("done", "image"), [(1, IMAGE), (0, AS_BOOTED)])
def test_the_image_of_a_rebuild_known_by_its_count_is_taken_from_the_same_state_or_a_later_one(
    done: int, image: InstanceImage, generation: int
) -> None:
    known = InstanceState(Desired(4, rebuilds=1), Observed(3, rebuilds=done))
    assert with_image(known, Desired(generation, rebuilds=1, image=IMAGE)) == replace(
        known, desired=Desired(4, rebuilds=1, image=IMAGE), image=image
    )


@pytest.mark.parametrize(
    ("known", "desired"),
    [
        (Desired(4, rebuilds=1), Desired(3, rebuilds=1, image=IMAGE)),
        (Desired(4, rebuilds=1), Desired(5, rebuilds=2, image=IMAGE)),
        (Desired(4, rebuilds=1), Desired(4, rebuilds=2, image=IMAGE)),
        (Desired(4, rebuilds=1), Desired(4, rebuilds=1)),
        (Desired(4, rebuilds=1, image=IMAGE), Desired(4, rebuilds=1, image=replace(IMAGE, id="other"))),
        (Desired(4), Desired(4, image=IMAGE)),
    ],
)
def test_an_image_is_not_taken_from_another_state_nor_in_place_of_one(
    known: Desired, desired: Desired
) -> None:
    state = InstanceState(known, Observed(4, rebuilds=1))
    assert with_image(state, desired) is state
