"""Threads are shared between senders, and some are for machines of the tree alone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.sender import Kind, Sender
from zonesched.serving.fair_queue import WAITING_PER_THREAD, FairQueue, Parts

STRANGER = Sender(Kind.STRANGER, "192.0.2.1")
MEMBER = Sender(Kind.PERSON, "member")
OTHER = Sender(Kind.PERSON, "other")
PARENT = Sender(Kind.MACHINE, "parent")
AGENT = Sender(Kind.MACHINE, "agent")


def started(queue: FairQueue[int]) -> list[Sender]:
    """The senders of all requests that may start now, in order."""
    found = []
    while one := queue.next():
        found.append(one[0])
    return found


def test_a_request_starts_at_once_while_threads_are_free() -> None:
    queue: FairQueue[int] = FairQueue(32)
    assert queue.put(MEMBER, 7)
    assert queue.next() == (MEMBER, 7)
    assert queue.next() is None


def test_requests_of_one_sender_keep_their_order() -> None:
    queue: FairQueue[int] = FairQueue(32)
    for number in range(5):
        queue.put(PARENT, number)
    assert [queue.next() for _ in range(5)] == [(PARENT, number) for number in range(5)]


def test_one_member_leaves_half_of_the_threads_to_others() -> None:
    queue: FairQueue[int] = FairQueue(8)
    for number in range(20):
        queue.put(MEMBER, number)
    assert started(queue) == [MEMBER] * 4
    queue.put(OTHER, 1)
    assert started(queue) == [OTHER]


def test_one_address_has_an_eighth_of_the_threads() -> None:
    queue: FairQueue[int] = FairQueue(64)
    for number in range(10):
        queue.put(STRANGER, number)
    assert started(queue) == [STRANGER] * 8


def test_members_together_leave_a_quarter_to_machines() -> None:
    queue: FairQueue[int] = FairQueue(8)
    for member in (MEMBER, OTHER):
        for number in range(10):
            queue.put(member, number)
    assert len(started(queue)) == 6
    queue.put(PARENT, 1)
    assert started(queue) == [PARENT]


def test_members_together_fill_three_quarters_of_the_queue() -> None:
    queue: FairQueue[int] = FairQueue(8)
    senders = (MEMBER, OTHER, STRANGER) * 8 * WAITING_PER_THREAD
    taken = sum(queue.put(sender, number) for number, sender in enumerate(senders))
    assert taken == 8 * WAITING_PER_THREAD * 3 // 4
    assert queue.put(PARENT, 0)


def test_one_parent_leaves_threads_to_another() -> None:
    queue: FairQueue[int] = FairQueue(8)
    for number in range(30):
        queue.put(PARENT, number)
    assert started(queue) == [PARENT] * 6
    queue.put(AGENT, 1)
    assert started(queue) == [AGENT]


def test_senders_take_turns_for_a_thread_that_gets_free() -> None:
    queue: FairQueue[int] = FairQueue(8)
    for sender in (PARENT, AGENT):
        for number in range(10):
            queue.put(sender, number)
    assert Counter(started(queue)) == {PARENT: 4, AGENT: 4}
    queue.done(PARENT)
    queue.done(PARENT)
    assert sorted(sender.name for sender in started(queue)) == ["agent", "parent"]


def test_a_full_queue_of_strangers_takes_a_machines_request() -> None:
    queue: FairQueue[int] = FairQueue(4)
    strangers = [Sender(Kind.STRANGER, f"192.0.2.{number}") for number in range(100)]
    for stranger in strangers:
        queue.put(stranger, 0)
    assert not queue.put(Sender(Kind.STRANGER, "198.51.100.1"), 0)
    assert not queue.put(MEMBER, 0)
    assert queue.put(PARENT, 0)


def test_one_address_fills_only_its_part_of_the_queue() -> None:
    queue: FairQueue[int] = FairQueue(16)
    taken = sum(queue.put(STRANGER, number) for number in range(1000))
    assert taken == Parts(16).of(Kind.STRANGER) * WAITING_PER_THREAD
    assert queue.put(MEMBER, 1)


def test_one_thread_serves_everybody() -> None:
    queue: FairQueue[int] = FairQueue(1)
    for sender in (STRANGER, MEMBER, PARENT):
        queue.put(sender, 1)
    served = []
    while one := queue.next():
        served.append(one[0])
        assert queue.next() is None
        queue.done(one[0])
    assert served == [STRANGER, MEMBER, PARENT]


@given(st.integers(1, 9), st.lists(st.sampled_from([STRANGER, MEMBER, OTHER, PARENT, AGENT]), max_size=60))
def test_every_request_that_was_taken_is_served_once(threads: int, senders: list[Sender]) -> None:
    queue: FairQueue[int] = FairQueue(threads)
    taken = {number for number, sender in enumerate(senders) if queue.put(sender, number)}
    served: list[int] = []
    running: list[Sender] = []
    while len(served) < len(taken):
        while one := queue.next():
            running.append(one[0])
            served.append(one[1])
        assert 0 < len(running) <= threads
        queue.done(running.pop())
    assert sorted(served) == sorted(taken)
