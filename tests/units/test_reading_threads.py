"""Threads that read slow bodies: nobody takes those of others."""

from __future__ import annotations

import pytest

from zonesched.dashboard.sessions import MAX_STRANGERS_FORM_BYTES
from zonesched.model.sender import Kind, Sender
from zonesched.serving.reading_threads import ReadingThreads
from zonesched.serving.request_bytes import GATHERED_BODY_BYTES


def taken(reading: ReadingThreads, *senders: Sender) -> int:
    """How many threads each of these senders takes, one after the other, as long as there is one."""
    count = 0
    for sender in senders:
        while reading.take(sender):
            count += 1
    return count


def some(kind: Kind) -> list[Sender]:
    return [Sender(kind, str(number)) for number in range(10)]


def test_one_sender_takes_half_of_what_its_kind_may_take() -> None:
    assert taken(ReadingThreads(32), Sender(Kind.PERSON, "a")) == 2


def test_many_of_one_kind_leave_those_of_the_others() -> None:
    reading = ReadingThreads(32)
    assert [taken(reading, *some(kind)) for kind in Kind] == [4, 4, 4]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_few_threads_are_not_all_taken_by_people(threads: int) -> None:
    reading = ReadingThreads(threads)
    assert taken(reading, *some(Kind.PERSON), *some(Kind.STRANGER)) == 1
    assert taken(reading, *some(Kind.MACHINE)) == 1


def test_what_is_given_back_is_taken_again() -> None:
    reading, sender = ReadingThreads(8), Sender(Kind.STRANGER, "a")
    assert taken(reading, sender) == 1
    reading.give_back(sender)
    assert reading.taken == 0
    assert taken(reading, sender) == 1


def test_the_server_has_all_of_a_strangers_form_before_a_thread_has_it() -> None:
    assert MAX_STRANGERS_FORM_BYTES <= GATHERED_BODY_BYTES
