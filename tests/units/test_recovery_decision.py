"""Decisions of a recovery, by the rows and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.named_boot import GivenBack, ImageAndFlavor, Requested
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.services.recovery.decision import Adopted, Decision, Ended, Known, decide
from zonesched.store import instances
from zonesched.store.placements import AskedChild, ClaimedHost, Placement, Where
from zonesched.store.recovery import Found, Kind, Named

ZONE, PARENT, UUID = "zone", "parent", "instance"
SPEC = RequestSpec("request", "project", 1, Flavor("f", "f", 1, 1, 1), Image("", ""))
NAMED = Named(PARENT, 7, "boot", SPEC)
BUILD, ACTIVE, ERROR, OFFLOADED = map(InstanceStatus, ("BUILD", "ACTIVE", "ERROR", "OFFLOADED"))
S = PlacementState
HOST = ClaimedHost("host", {})
CHILD, SIBLING = AskedChild("child", ("blob",)), AskedChild("sibling", ("blob",))


def known(status: InstanceStatus, state: PlacementState | None, number: int = 1, caller: str = ZONE) -> Known:
    row = instances.of_request(
        SPEC,
        uuid=UUID,
        reservation_id="boot",
        caller_id=caller,
        user_id=caller,
        position=0,
        name="",
        now=0.0,
        status=status,
        attempt=number,
    )
    if state is None:
        return Known(row, None)
    return Known(row, a_place(number, state, caller))


def a_place(
    number: int, state: PlacementState = S.RELEASED, caller: str = ZONE, where: Where = HOST
) -> Placement:
    return Placement(UUID, number, caller, "boot", where, state, "", 0.0, 0.0)


def found(number: int, named: Named | None = None, given_back: GivenBack | None = None) -> Found:
    return Found(Kind.AGENT, "agent", UUID, number, "host", ACTIVE, named, given_back=given_back)


def decided(
    here: Sequence[Known],
    there: Sequence[Found],
    rows: Sequence[int] = (),
    *,
    leaving: Sequence[int] = (),
    parked: Sequence[int] = (),
    is_root: bool = False,
) -> list[str]:
    places = {(UUID, number): a_place(number) for number in rows}
    places |= {(UUID, number): a_place(number, S.RELEASING) for number in leaving}
    places |= {(UUID, number): a_place(number, S.PARKED) for number in parked}
    decisions = decide(here, {UUID: there} if there else {}, places, ZONE, is_root=is_root)
    return [type(one).__name__ for one in decisions]


@pytest.mark.parametrize("state", [S.CONFIRMED, S.CONFIRMING, S.PARKED, S.RELEASING], ids=str)
def test_one_that_was_found_where_it_is_is_kept(state: PlacementState) -> None:
    assert decided([known(ACTIVE, state)], [found(1)]) == ["Kept"]


@pytest.mark.parametrize("state", [S.INTENDED, S.HELD, S.CANCELLING, S.GONE, S.FAILED, None], ids=str)
def test_one_that_was_found_is_built_there_whatever_was_decided_of_its_hold(
    state: PlacementState | None,
) -> None:
    assert decided([known(BUILD, state)], [found(1)]) == ["Moved"]


def test_one_that_was_found_at_a_later_place_is_there_and_not_at_the_earlier() -> None:
    assert decided([known(ACTIVE, S.RELEASED)], [found(1), found(2)]) == ["Moved", "Unwanted"]
    assert decided([known(OFFLOADED, S.RELEASED)], [found(2)]) == ["Moved"]


def test_an_earlier_place_that_the_rows_have_as_well_is_as_they_say() -> None:
    here = known(ACTIVE, S.CONFIRMED, number=2)

    assert decided([here], [found(1), found(2)], rows=[1, 2]) == ["Kept", "Kept"]
    assert decided([here], [found(1), found(2)]) == ["Kept", "Unwanted"]


def test_what_is_built_at_its_new_place_and_is_kept_at_the_old_one_no_more_has_been_confirmed() -> None:
    here = known(ACTIVE, S.CONFIRMED, number=2)

    assert decided([here], [found(2)], rows=[2], parked=[1]) == ["Confirmed"]
    assert decided([here], [found(1), found(2)], rows=[2], parked=[1]) == ["Kept", "Kept"]
    assert decided([here], [replace(found(2), status=BUILD)], rows=[2], parked=[1]) == ["Kept"]


def test_an_earlier_place_that_the_rows_lack_ends_once_an_agent_has_built_a_later_one() -> None:
    here = known(ACTIVE, S.RELEASING)
    building = replace(found(3), status=BUILD)

    assert decided([here], [found(2), found(3)], [1]) == ["Moved", "Unwanted"]
    assert decided([here], [found(2), building], [1]) == ["Moved", "Unclaimed"]
    # Of an instance that no row has, nobody knows which one is it.
    assert decided([], [found(2), found(3, NAMED)]) == ["Adopted", "Unclaimed"]


@pytest.mark.parametrize("status", [BUILD, ACTIVE], ids=str)
def test_one_that_is_built_at_its_place_and_was_found_at_a_later_one_moves(status: InstanceStatus) -> None:
    later = replace(found(2), status=status)
    here = known(ACTIVE, S.CONFIRMED)

    assert decided([here], [found(1), later], rows=[1]) == ["Moving", "Kept"]
    # One that was never built there cannot return; of its next place nothing is known before it is built.
    unbuilt = replace(found(1), status=BUILD)
    assert decided([here], [unbuilt, found(2)], rows=[1]) == ["Moved", "Kept"]
    assert decided([here], [unbuilt, replace(found(2), status=BUILD)], rows=[1]) == ["Moved", "Unclaimed"]


def test_a_place_that_the_rows_have_left_is_none_that_an_instance_returns_to() -> None:
    # A later one of a move that turns back, and an earlier one whose agent was away.
    assert decided([known(ACTIVE, S.PARKED)], [found(1), found(2)], rows=[1], leaving=[2]) == ["Kept", "Kept"]
    here = known(ACTIVE, S.CONFIRMED, number=2)
    assert decided([here], [found(1)], rows=[2], leaving=[1]) == ["Ended", "Kept"]


@pytest.mark.parametrize("state", [S.CONFIRMED, S.INTENDED, S.HELD, None], ids=str)
def test_an_own_one_that_was_found_nowhere_has_ended(state: PlacementState | None) -> None:
    assert decided([known(BUILD, state)], []) == ["Ended"]


@pytest.mark.parametrize(("state", "expected"), [(S.HELD, []), (S.INTENDED, []), (S.CONFIRMED, ["Ended"])])
def test_a_parents_hold_ends_by_itself(state: PlacementState, expected: list[str]) -> None:
    assert decided([known(BUILD, state, caller=PARENT)], []) == expected


def test_one_that_rests_or_has_ended_and_was_found_nowhere_stays_as_it_is() -> None:
    assert decided([known(OFFLOADED, S.RELEASED)], []) == []


def test_one_that_ended_by_the_rows_ends_where_they_had_it_and_is_listed_elsewhere() -> None:
    assert decided([], [found(1)], rows=[1]) == ["Unwanted"]
    assert decided([], [found(2)], rows=[1]) == ["Unclaimed"]


def test_one_that_a_parent_names_is_its_own_whatever_the_rows_say() -> None:
    assert decided([], [found(1, NAMED)]) == ["Adopted"]
    assert decided([], [found(1, NAMED)], rows=[1]) == ["Adopted"]


def test_only_a_zone_without_parents_takes_a_childs_word_for_the_owner() -> None:
    as_booted = ImageAndFlavor(AS_BOOTED, AS_BOOTED)
    sent = found(3, given_back=GivenBack(Requested("boot", SPEC), as_booted, as_booted))
    (one,) = decide([], {UUID: [sent]}, {}, ZONE, is_root=True)

    assert isinstance(one, Adopted)
    assert one.named == Named(ZONE, 3, "boot", SPEC)
    assert decided([], [sent]) == ["Unclaimed"]


# -- a child that lies -------------------------------------------------------------------------------------


def claimed(number: int, holder_id: str = "child") -> Found:
    return Found(Kind.CHILD, holder_id, UUID, number, "", ACTIVE)


def of(decisions: Iterator[Decision]) -> list[tuple[str, Found]]:
    return [(type(one).__name__, one.found) for one in decisions if not isinstance(one, Ended)]


@pytest.mark.parametrize("number", [1, 99])
@pytest.mark.parametrize(
    ("where", "honest"), [(HOST, found(1)), (SIBLING, claimed(1, "sibling"))], ids=["host", "sibling"]
)
def test_a_childs_word_moves_nothing_away_from_where_the_rows_have_it_and_it_still_is(
    where: Where, honest: Found, number: int
) -> None:
    place = a_place(1, S.CONFIRMED, where=where)
    here, lie = Known(known(ACTIVE, None).instance, place), claimed(number)

    decisions = of(decide([here], {UUID: [honest, lie]}, {place.key: place}, ZONE, is_root=True))

    assert decisions == [("Kept", honest), ("Unclaimed", lie)]


@pytest.mark.parametrize(
    ("sent_as", "named_by", "is_moved"), [(6, PARENT, True), (7, PARENT, False), (6, "x", False)]
)
def test_one_that_its_parent_has_placed_anew_in_a_child_ends_where_it_was(
    sent_as: int, named_by: str, is_moved: bool
) -> None:
    named = replace(NAMED, caller_id=named_by)
    old, new = found(1, named), replace(claimed(2), named=named)
    here = replace(known(ACTIVE, S.CONFIRMED, caller=PARENT), sent_as=sent_as)
    assert here.place is not None

    decisions = of(decide([here], {UUID: [old, new]}, {here.place.key: here.place}, ZONE, is_root=False))

    wanted = [("Moved", new), ("Kept", old)] if is_moved else [("Kept", old), ("Unclaimed", new)]
    assert decisions == wanted


def test_a_childs_word_moves_nothing_away_from_where_an_agent_has_it_now() -> None:
    place = a_place(1, S.CONFIRMED, where=SIBLING)
    here, there, lie = Known(known(ACTIVE, None).instance, place), found(2), claimed(99)

    decisions = of(decide([here], {UUID: [there, lie]}, {place.key: place}, ZONE, is_root=True))

    assert decisions == [("Moved", there), ("Unclaimed", lie)]


def test_a_place_of_an_agent_is_not_a_childs_of_the_same_number() -> None:
    place = a_place(1, S.CONFIRMED)
    here, lie = Known(known(ACTIVE, None).instance, place), claimed(1)

    decisions = [
        type(one).__name__ for one in decide([here], {UUID: [lie]}, {place.key: place}, ZONE, is_root=True)
    ]

    assert decisions == ["Ended", "Unclaimed"]


def test_one_that_moved_to_a_child_since_the_copy_is_there() -> None:
    place = a_place(1, S.CONFIRMED)
    here, there = Known(known(ACTIVE, None).instance, place), claimed(2)

    decisions = of(decide([here], {UUID: [there]}, {place.key: place}, ZONE, is_root=True))

    assert decisions == [("Moved", there)]
