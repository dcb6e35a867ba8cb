"""Bounds of the memory held for callers, for each and for all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.byte_budget import ByteBudget
from zonesched.model.sender import Kind, Sender

MEMBER, OTHER = Sender(Kind.PERSON, "member"), Sender(Kind.PERSON, "other")
PARENT = Sender(Kind.MACHINE, "parent")
OF_KIND = {Kind.STRANGER: 0, Kind.PERSON: 40, Kind.MACHINE: 80}


def test_one_member_has_no_more_than_its_part() -> None:
    budget = ByteBudget(100, OF_KIND)
    assert budget.take(MEMBER, 40)
    assert not budget.take(MEMBER, 1)
    assert budget.take(OTHER, 10)


def test_people_leave_half_to_machines() -> None:
    budget = ByteBudget(100, OF_KIND)
    assert budget.take(MEMBER, 40)
    assert not budget.take(OTHER, 11)
    assert budget.take(PARENT, 60)
    assert not budget.take(PARENT, 1)


def test_what_is_given_back_can_be_taken_again() -> None:
    budget = ByteBudget(100, OF_KIND)
    budget.take(MEMBER, 40)
    budget.give_back(MEMBER, 40)
    assert budget.held == 0
    assert budget.take(MEMBER, 40)


@given(st.lists(st.tuples(st.sampled_from([MEMBER, OTHER, PARENT]), st.integers(1, 90)), max_size=40))
def test_the_total_is_never_exceeded(wanted: list[tuple[Sender, int]]) -> None:
    budget = ByteBudget(100, OF_KIND)
    taken = [(sender, size) for sender, size in wanted if budget.take(sender, size)]
    assert budget.held == sum(size for _, size in taken) <= 100
    for sender, size in taken:
        budget.give_back(sender, size)
    assert budget.held == 0
