"""Answers of children in hand are bounded together; no child and no caller takes what another one needs."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from zonesched.errors import ChildUnreachable
from zonesched.zones import answer_room
from zonesched.zones.answer_room import SMALL_BYTES, AnswerHand, AnswerRoom

MIB = 2**20
CHILDREN = 20
TOTAL = 40 * MIB
"""1 MiB for each child, and 20 MiB for those that need more."""


@pytest.fixture
def room() -> AnswerRoom:
    return AnswerRoom(lambda: CHILDREN, TOTAL)


def takes(room: AnswerRoom, hand: AnswerHand, child: str, size: int) -> bool:
    """Tell whether there is room for an answer without a wait."""
    try:
        room.take(hand, child, size, 0.0)
    except ChildUnreachable as refused:
        assert refused.code == "child_answer_no_room"
        return False
    return True


def fill(room: AnswerRoom, hand: AnswerHand, child: str, size: int = MIB) -> int:
    """Count the answers of this size that are taken from one child."""
    count = 0
    while takes(room, hand, child, size):
        count += 1
    return count


def test_the_sum_is_bounded_whoever_asks_whom(room: AnswerRoom) -> None:
    with ExitStack() as held:
        taken = 0
        for number in range(30):
            hand = held.enter_context(room.hand(f"caller-{number}"))
            taken += sum(fill(room, hand, f"child-{child}") for child in range(CHILDREN))

    assert TOTAL * 3 // 4 <= taken * MIB <= TOTAL


def test_a_child_has_its_part_whatever_the_others_answer(room: AnswerRoom) -> None:
    with room.hand("a") as a, room.hand("b") as b:
        for child in range(CHILDREN - 1):
            fill(room, a, f"liar-{child}")
            fill(room, b, f"liar-{child}")

        assert takes(room, a, "honest", MIB)


def test_a_small_answer_needs_no_room(room: AnswerRoom) -> None:
    with room.hand("a") as hand:
        fill(room, hand, "child", SMALL_BYTES + 1)

        assert not takes(room, hand, "child", SMALL_BYTES + 1)
        assert takes(room, hand, "child", SMALL_BYTES)


def test_one_child_leaves_half_of_the_common_bytes(room: AnswerRoom) -> None:
    with room.hand("a") as a, room.hand("b") as b:
        fill(room, a, "liar")
        fill(room, b, "liar")

        assert takes(room, b, "honest", 1 * MIB + 10 * MIB)


def test_one_caller_leaves_half_of_the_common_bytes(room: AnswerRoom) -> None:
    with room.hand("greedy") as greedy, room.hand("other") as other:
        for child in range(CHILDREN):
            fill(room, greedy, f"child-{child}")

        assert takes(room, other, "child-1", 10 * MIB)


def test_the_largest_answer_fits_where_nothing_else_is_in_hand(room: AnswerRoom) -> None:
    with room.hand("a") as hand:
        assert takes(room, hand, "child", 100 * TOTAL)


def test_what_a_hand_has_held_is_free_again(room: AnswerRoom) -> None:
    with room.hand("a") as hand:
        first = fill(room, hand, "child")
    with room.hand("a") as hand:
        assert fill(room, hand, "child") == first


def test_an_answer_waits_for_those_of_others_to_be_used_up(room: AnswerRoom) -> None:
    taken = threading.Event()

    def wait() -> None:
        with room.hand("b") as b:
            room.take(b, "child", 15 * MIB, 10.0)
            taken.set()

    with room.hand("a") as a:
        room.take(a, "child", 15 * MIB, 0.0)
        waiting = threading.Thread(target=wait)
        waiting.start()
        was_early = taken.wait(0.05)
    waiting.join(10.0)

    assert (was_early, taken.is_set()) == (False, True)


def test_it_waits_no_longer_than_its_call_may_take(room: AnswerRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_room, "WAIT_S", 3600.0)
    with room.hand("a") as hand:
        fill(room, hand, "child")
        with pytest.raises(ChildUnreachable):
            room.take(hand, "child", MIB, 0.05)


def test_an_answer_to_work_that_has_ended_is_not_taken(room: AnswerRoom) -> None:
    with room.hand("a") as hand:
        pass

    assert not takes(room, hand, "child", MIB)
    with room.hand("a") as another:
        assert takes(room, another, "child", 11 * MIB)
