"""Slots of selects are shared by caller: none can take what the next one needs."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest

from zonesched.errors import ZoneBusy
from zonesched.services.state.caller_slots import CallerSlots

SLOTS = 24


def take(slots: CallerSlots, held: ExitStack, parent: str, wanted: int) -> int:
    """Count the wanted slots that a parent gets."""
    got = 0
    with suppress(ZoneBusy):
        for _ in range(wanted):
            held.enter_context(slots.of_parent(parent))
            got += 1
    return got


def test_one_parent_with_30_selects_leaves_slots_to_the_others() -> None:
    slots = CallerSlots(SLOTS)
    with ExitStack() as held:
        greedy = take(slots, held, "greedy", 30)
        others = [take(slots, held, f"parent{number}", 1) for number in range(12)]
    assert greedy == 12
    assert others == [1] * 12


def test_greedy_callers_end_up_with_equal_shares_and_a_rest_for_newcomers() -> None:
    slots = CallerSlots(SLOTS)
    with ExitStack() as held:
        got = {"a": 0, "b": 0}
        for _ in range(30):
            for name in got:
                got[name] += take(slots, held, name, 1)
        newcomer = take(slots, held, "c", 30)
    assert got == {"a": 8, "b": 8}
    assert newcomer == 4


def test_users_leave_a_third_to_parents_however_many_they_are() -> None:
    slots = CallerSlots(SLOTS)
    users = 0
    with ExitStack() as held:
        with suppress(ZoneBusy):
            for number in range(100):
                held.enter_context(slots.of_user(f"user{number}"))
                users += 1
        parents = [take(slots, held, f"parent{number}", 1) for number in range(8)]
    assert users == 16
    assert parents == [1] * 8


@pytest.mark.parametrize("count", [0, 1, 2, 3, 24])
def test_a_caller_alone_always_gets_a_slot(count: int) -> None:
    with CallerSlots(count).of_user("one"):
        pass
    with CallerSlots(count).of_parent("one"):
        pass


def test_a_slot_is_given_back_also_where_the_select_fails() -> None:
    slots = CallerSlots(1)
    for _ in range(3):
        with pytest.raises(LookupError), slots.of_parent("one"):
            raise LookupError
    with slots.of_parent("one"), pytest.raises(ZoneBusy) as refused, slots.of_parent("another"):
        pass
    assert (refused.value.code, refused.value.retry_after_s) == ("zone_busy", 1)
    assert not slots._held
