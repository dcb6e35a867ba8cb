"""Offers of a boot's last select: what its worker takes, and what it names to a child as spare."""

from __future__ import annotations

from zonesched.model.build_plan import BuildPlan, Bundle, ChildBlob, Entry
from zonesched.model.place import LocalPlace
from zonesched.services.boot.offers import ALTERNATES_PER_BUILD, MOST_SPARE_BYTES, Offers


def of_child(child_id: str, *blobs: str) -> list[Entry]:
    return [Entry(0, 0, ChildBlob(child_id, blob)) for blob in blobs]


def plan(
    entries: list[Entry], alternates: list[Entry] | None = None, bundles: tuple[Bundle, ...] = ()
) -> BuildPlan:
    return BuildPlan(tuple(entries), tuple(alternates or ()), bundles, complete=True, expires_in_s=60)


def test_entries_come_first_then_alternates_each_once() -> None:
    entries, alternates = of_child("a", "a1", "a2"), of_child("b", "b1")
    offers = Offers(plan(entries, alternates))

    assert offers.take(1) == entries[:1]
    assert offers.take(9) == [*entries[1:], *alternates]
    assert offers.take(1) == []


def test_spare_blobs_are_the_next_of_the_same_child_alone() -> None:
    # Given: entries of two children and of a local host, in turns
    taken, *more = of_child("a", *(f"a{n}" for n in range(ALTERNATES_PER_BUILD + 2)))
    others = of_child("b", *(f"b{n}" for n in range(len(more))))
    here = Entry(0, 0, LocalPlace("h1"))
    mixed = [here, *(entry for pair in zip(others, more, strict=True) for entry in pair)]
    offers = Offers(plan([taken], mixed))

    # When
    (entry,) = offers.take(1)

    # Then: in order, at most so many, and they are not taken by that
    assert isinstance(entry.place, ChildBlob)
    assert offers.spare_blobs(entry.place) == ("a1", "a2", "a3")[:ALTERNATES_PER_BUILD]
    assert offers.spare_blobs(ChildBlob("c", "c0")) == ()
    assert offers.take(3) == mixed[:3]
    # And what has been taken since is no spare
    assert offers.spare_blobs(entry.place) == ("a2", "a3", "a4")[:ALTERNATES_PER_BUILD]
    assert offers.take(9) == mixed[3:]


def test_very_many_builds_get_no_spare_entries() -> None:
    (entry,) = of_child("a", "x")
    offers = Offers(plan([], of_child("a", "y" * 1024, "z" * 1024)))
    assert isinstance(entry.place, ChildBlob)

    most = MOST_SPARE_BYTES // 2048

    assert len(offers.spare_blobs(entry.place, most)) == 2
    assert offers.spare_blobs(entry.place, most + 1) == ()


def test_a_bundle_is_the_first_that_is_large_enough_cut_to_the_size() -> None:
    small, large = of_child("a", "a1"), of_child("b", "b1", "b2", "b3")
    offers = Offers(plan([], bundles=(Bundle(1, 0, tuple(small)), Bundle(2, 0, tuple(large)))))

    assert offers.take(2, whole=True) == large[:2]
    assert offers.take(2, whole=True) == []
