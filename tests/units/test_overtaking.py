"""Desired states that a child's answer overtakes, as a pure function."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders.hosts import a_spec
from zonesched.model.desired_call import DesiredAnswer, Taken
from zonesched.model.desired_state import Desired, InstanceState
from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.named_boot import GivenBack, ImageAndFlavor, Requested
from zonesched.model.observed_state import MAX_ADOPTED, NO_RESIZES, Observed, Power, Resizes
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.life.overtaking import is_overtaken, knows_count_alone, may_lack, overtaking
from zonesched.zones.answers import MAX_GENERATION

OWN, HAS, GETS = Image("own", "own"), Image("has", "has"), Image("gets", "gets")
SMALL, LARGE, LARGER = (Flavor(name, name, 1, 512, 1) for name in ("small", "large", "larger"))
THEIRS = GivenBack(Requested("boot", a_spec()), ImageAndFlavor(HAS, LARGE), ImageAndFlavor(GETS, LARGER))
CONFIRMED = Resizes(1, confirmed=1)


def answer(generation: int = 5, rebuilds: int = 0, resizes: Resizes = NO_RESIZES) -> DesiredAnswer:
    return DesiredAnswer("uuid", 1, Taken.STORED, generation, 3, rebuilds, resizes)


def stopping(rebuilds: int = 0, resizes: Resizes = NO_RESIZES) -> InstanceState:
    """A server of generation 1 that is to be stopped by generation 2."""
    desired = Desired(2, Power.STOPPED, rebuilds=rebuilds, image=OWN, resizes=resizes, flavor=SMALL)
    observed = Observed(1, rebuilds=rebuilds, resizes=resizes)
    return InstanceState(desired, observed, image=OWN, flavor=SMALL)


@pytest.mark.parametrize(
    ("told", "pending", "taken", "theirs", "is_so"),
    [
        (2, True, Taken.STORED, 3, True),
        (2, True, Taken.STORED, 2, False),
        (2, True, Taken.DIFFERENT, 2, True),
        (1, True, Taken.DIFFERENT, 2, False),
        (2, False, Taken.DIFFERENT, 2, False),
        (2, False, Taken.STORED, 3, True),
        (2, True, Taken.STORED, MAX_ADOPTED, True),
        (2, True, Taken.STORED, MAX_ADOPTED + 1, False),
        (2, True, Taken.DIFFERENT, MAX_ADOPTED, True),
        (2, True, Taken.DIFFERENT, MAX_ADOPTED + 1, False),
    ],
)
def test_a_later_generation_or_another_state_of_the_same_overtakes(
    told: int, pending: bool, taken: Taken, theirs: int, is_so: bool
) -> None:
    state = replace(stopping(), observed=Observed(1 if pending else 2))

    assert is_overtaken(state, Desired(told), replace(answer(theirs), taken=taken)) is is_so


@pytest.mark.parametrize(("own", "theirs", "generation"), [(2, 5, 6), (2, 2, 3), (7, 5, 8)])
def test_the_generation_is_above_both_and_what_is_wanted_stays(
    own: int, theirs: int, generation: int
) -> None:
    state = replace(stopping(), desired=replace(stopping().desired, generation=own))

    after = overtaking(state, answer(theirs), THEIRS)

    assert (after.desired.generation, after.desired.power) == (generation, Power.STOPPED)
    assert after.observed == state.observed


@pytest.mark.parametrize("is_reboot", [True, False])
def test_a_reboot_under_way_gets_the_new_generation_and_another_is_the_childs(is_reboot: bool) -> None:
    state = replace(stopping(), rebooted_by=2 if is_reboot else 1)

    after = overtaking(state, answer(), THEIRS)

    assert (after.rebooted_by, after.desired.reboots) == ((6, 6) if is_reboot else (1, 3))


@pytest.mark.parametrize(
    ("known", "theirs", "image", "desired_image", "rebuilt_by"),
    [(0, 1, HAS, GETS, 5), (1, 1, OWN, OWN, 1), (1, 0, OWN, OWN, 1)],
)
def test_an_image_is_the_childs_where_it_was_told_of_more_rebuilds(
    known: int, theirs: int, image: Image, desired_image: Image, rebuilt_by: int
) -> None:
    state = replace(stopping(rebuilds=known), rebuilt_by=1)

    after = overtaking(state, answer(rebuilds=theirs), THEIRS)

    assert (after.image, after.desired.image, after.rebuilt_by) == (image, desired_image, rebuilt_by)
    assert after.desired.rebuilds == theirs


def test_a_rebuild_under_way_comes_after_those_of_the_child() -> None:
    state = replace(stopping(rebuilds=1), rebuilt_by=2)

    after = overtaking(state, answer(rebuilds=1), THEIRS)

    assert (after.image, after.desired.image, after.desired.rebuilds, after.rebuilt_by) == (HAS, OWN, 2, 6)


UNNAMED = replace(THEIRS, settled=ImageAndFlavor(AS_BOOTED, LARGE), desired=ImageAndFlavor(AS_BOOTED, LARGE))


@pytest.mark.parametrize(
    ("theirs", "rebuilds", "is_so"),
    [(UNNAMED, 1, True), (UNNAMED, 0, False), (THEIRS, 1, False), (None, 1, False)],
)
def test_a_child_with_rebuilds_and_no_image_knows_their_count_alone(
    theirs: GivenBack | None, rebuilds: int, is_so: bool
) -> None:
    assert knows_count_alone(answer(rebuilds=rebuilds), theirs) is is_so


@pytest.mark.parametrize(("theirs", "rebuilds"), [(1, 1), (2, 3)])
def test_a_rebuild_under_way_that_an_agent_of_the_child_has_done_is_not_asked_for_again(
    theirs: int, rebuilds: int
) -> None:
    state = replace(stopping(rebuilds=1), rebuilt_by=2)

    after = overtaking(state, answer(rebuilds=theirs), UNNAMED, count_alone=True)

    assert (after.desired.image, after.desired.rebuilds, after.rebuilt_by) == (OWN, rebuilds, 6)


@pytest.mark.parametrize(
    ("known", "theirs", "flavor", "desired_flavor"),
    [
        (NO_RESIZES, CONFIRMED, LARGE, LARGER),
        (NO_RESIZES, NO_RESIZES, LARGE, LARGER),
        (CONFIRMED, NO_RESIZES, SMALL, SMALL),
    ],
)
def test_a_flavor_is_the_childs_unless_it_has_forgotten_resizes(
    known: Resizes, theirs: Resizes, flavor: Flavor, desired_flavor: Flavor
) -> None:
    after = overtaking(stopping(resizes=known), answer(resizes=theirs), THEIRS)

    assert (after.flavor, after.desired.flavor) == (flavor, desired_flavor)
    assert after.desired.resizes == theirs


def test_a_resize_under_way_comes_after_those_of_the_child() -> None:
    state = replace(stopping(resizes=Resizes(1)), observed=Observed(1))

    after = overtaking(state, answer(resizes=CONFIRMED), THEIRS)

    assert after.desired.resizes == Resizes(2, confirmed=1)
    assert (after.flavor, after.desired.flavor) == (LARGE, SMALL)


@pytest.mark.parametrize("wanted", [Resizes(1, confirmed=1), Resizes(1, reverted=1)])
def test_a_confirm_or_a_revert_under_way_is_counted_once_more(wanted: Resizes) -> None:
    state = replace(stopping(resizes=wanted), observed=Observed(1, resizes=Resizes(1)))

    after = overtaking(state, answer(resizes=Resizes(3, 1, 1)), THEIRS)

    assert after.desired.resizes == Resizes(3, 1 + wanted.confirmed, 1 + wanted.reverted)


def test_counts_of_a_lying_child_are_taken_up_to_a_limit_that_leaves_as_many_above_it() -> None:
    wanted = Resizes(1, confirmed=1)
    state = replace(stopping(rebuilds=1, resizes=wanted), rebuilt_by=2, observed=Observed(1))
    lie = answer(rebuilds=MAX_GENERATION, resizes=Resizes(MAX_GENERATION, MAX_GENERATION))

    after = overtaking(state, lie, THEIRS)

    assert after.desired.rebuilds == MAX_ADOPTED + 1
    assert after.desired.resizes == Resizes(MAX_ADOPTED + 1, confirmed=MAX_ADOPTED + 1)


def test_a_child_without_the_instance_tells_nothing_of_it() -> None:
    after = overtaking(stopping(), answer(rebuilds=1, resizes=CONFIRMED), None)

    assert (after.image, after.desired.image) == (OWN, OWN)
    assert (after.flavor, after.desired.flavor) == (SMALL, SMALL)
    assert after.desired.rebuilds == 1


@pytest.mark.parametrize(
    ("known", "theirs", "is_so"),
    [
        ((0, NO_RESIZES), (1, NO_RESIZES), True),
        ((0, CONFIRMED), (0, NO_RESIZES), False),
        ((0, CONFIRMED), (1, NO_RESIZES), True),
        ((0, CONFIRMED), (0, CONFIRMED), True),
    ],
)
def test_a_child_is_asked_where_it_may_know_more(
    known: tuple[int, Resizes], theirs: tuple[int, Resizes], is_so: bool
) -> None:
    assert may_lack(stopping(*known), answer(5, *theirs)) is is_so
