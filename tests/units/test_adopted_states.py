"""States that a child knows better than rows put back from a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders.hosts import a_spec
from zonesched.model.desired_state import Desired, InstanceState
from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.named_boot import GivenBack, ImageAndFlavor, Requested
from zonesched.model.observed_state import MAX_ADOPTED, NO_RESIZES, Observed, Resizes
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.life.observing import adopt
from zonesched.store.instance_states import StoredState

UUID = "00000000-0000-4000-8000-000000000001"
OWN, THEIRS = Image("own", "own"), Image("theirs", "theirs")
LARGE, LARGER = Flavor("large", "large", 4, 4096, 40), Flavor("larger", "larger", 8, 8192, 80)
CONFIRMED, OPEN = Resizes(1, confirmed=1), Resizes(2, confirmed=1)


def adopted(counts: Observed, *, rebuilds: int, resizes: Resizes) -> InstanceState:
    """The state after a report of generation 2 on rows of generation 1 with these counts."""
    desired = Desired(1, rebuilds=rebuilds, image=OWN, resizes=resizes, flavor=LARGE)
    known = StoredState(UUID, InstanceState(desired, Observed(1), image=OWN, flavor=LARGE))
    theirs = GivenBack(
        Requested("boot", a_spec()),
        settled=ImageAndFlavor(THEIRS, AS_BOOTED),
        desired=ImageAndFlavor(THEIRS, LARGER),
    )
    (row,) = adopt({UUID: known}, [(UUID, counts)], {}, {UUID: theirs})
    return row.state


@pytest.mark.parametrize(("known", "reported", "image"), [(0, 1, THEIRS), (1, 1, OWN), (2, 1, OWN)])
def test_an_image_is_taken_over_with_a_rebuild_that_the_rows_lack(
    known: int, reported: int, image: Image
) -> None:
    after = adopted(Observed(2, rebuilds=reported), rebuilds=known, resizes=NO_RESIZES)

    assert (after.desired.image, after.desired.rebuilds) == (image, reported)
    # It is built with that image at its next place, and is not being rebuilt.
    assert after.rebuilt_by == 2
    assert not replace(after, observed=Observed(2, rebuilds=reported)).is_rebuilding


def test_the_image_of_a_place_without_a_rebuild_is_the_one_that_the_child_was_asked_for() -> None:
    after = adopted(Observed(2), rebuilds=0, resizes=NO_RESIZES)

    assert (after.image, after.desired.image, after.rebuilt_by) == (THEIRS, THEIRS, 0)


@pytest.mark.parametrize(
    ("known", "reported", "settled", "desired"),
    [
        (NO_RESIZES, NO_RESIZES, AS_BOOTED, AS_BOOTED),
        (NO_RESIZES, CONFIRMED, AS_BOOTED, AS_BOOTED),
        (NO_RESIZES, OPEN, AS_BOOTED, LARGER),
        (OPEN, CONFIRMED, LARGE, LARGE),
        (CONFIRMED, NO_RESIZES, LARGE, LARGE),
    ],
)
def test_a_flavor_is_taken_over_from_a_child_that_has_forgotten_no_resize(
    known: Resizes, reported: Resizes, settled: object, desired: object
) -> None:
    after = adopted(Observed(2, resizes=reported), rebuilds=0, resizes=known)

    assert (after.flavor, after.desired.flavor, after.desired.resizes) == (settled, desired, reported)


def test_a_second_resize_that_is_open_leaves_what_the_first_one_gave() -> None:
    before = adopted(Observed(2, resizes=OPEN), rebuilds=0, resizes=NO_RESIZES)

    after = replace(before, flavor=LARGE).observing(Observed(2, resizes=OPEN))

    assert (after.flavor, after.present_flavor) == (LARGE, LARGER)


def test_a_generation_is_taken_over_up_to_a_limit_that_leaves_as_many_above_it() -> None:
    def taken(generation: int) -> int:
        rows = adopt({}, [(UUID, Observed(generation))], {UUID: 0.0}, {})
        return rows[0].state.desired.generation if rows else 0

    assert taken(MAX_ADOPTED) == MAX_ADOPTED
    assert taken(MAX_ADOPTED + 1) == 0
    assert 2 * MAX_ADOPTED <= 2**31


@pytest.mark.parametrize("far", [MAX_ADOPTED + 1, 2**31 - 1])
def test_counts_beyond_that_limit_are_taken_over_only_where_they_were_asked_for(far: int) -> None:
    def taken(counts: Observed, asked: Desired) -> bool:
        return bool(adopt({UUID: StoredState(UUID, InstanceState(asked))}, [(UUID, counts)], {}, {}))

    rebuilt = Observed(2, rebuilds=far)
    resized = Observed(2, resizes=Resizes(far, confirmed=far))
    assert not taken(rebuilt, Desired(1))
    assert not taken(resized, Desired(1))
    assert taken(rebuilt, Desired(1, rebuilds=far))
    assert taken(resized, Desired(1, resizes=Resizes(far, confirmed=far - 1)))
    assert taken(Observed(2, rebuilds=MAX_ADOPTED, resizes=Resizes(MAX_ADOPTED)), Desired(1))
