"""Wrong passwords cost growing pauses; one check runs at a time, and few wait for it."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.builders.clock import FakeClock
from zonesched.errors import OverLimit, ZoneBusy
from zonesched.services.state.password_guard import (
    FORGOTTEN_AFTER_S,
    FREE_OF_ADDRESS,
    FREE_OF_USER,
    LONGEST_PAUSE_S,
    MAX_KEYS,
    PasswordGuard,
)


def wrong() -> bool:
    return False


def right() -> bool:
    return True


def never() -> bool:
    raise AssertionError("a password was checked during a pause")


def a_guard(clock: FakeClock | None = None) -> PasswordGuard:
    return PasswordGuard(clock or FakeClock(), waiting=4)


def pause_after(guard: PasswordGuard, name: str = "ann", address: str = "192.0.2.1") -> int:
    with pytest.raises(OverLimit) as refused:
        guard.check(name, address, never)
    assert refused.value.code == "too_many_wrong_passwords"
    return refused.value.retry_after_s


def test_the_pauses_of_a_user_grow_to_a_bound_whatever_address_guesses() -> None:
    # given
    clock = FakeClock()
    guard = a_guard(clock)
    for number in range(FREE_OF_USER):
        assert not guard.check("ann", f"192.0.2.{number}", wrong)
    # when
    pauses = []
    for number in range(8):
        pauses.append(pause_after(guard, address=f"198.51.100.{number}"))
        clock.advance(pauses[-1])
        assert not guard.check("ann", f"198.51.100.{number}", wrong)
    # then
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_an_address_that_guesses_many_names_pauses_and_others_do_not() -> None:
    guard = a_guard()
    for number in range(FREE_OF_ADDRESS):
        assert not guard.check(f"user{number}", "192.0.2.1", wrong)
    assert pause_after(guard, "somebody", "192.0.2.1")
    assert guard.check("somebody", "192.0.2.2", right)


def test_the_addresses_of_one_ipv6_network_count_as_one() -> None:
    guard = a_guard()
    for number in range(FREE_OF_ADDRESS):
        guard.check(f"user{number}", f"2001:db8::{number:x}", wrong)
    assert pause_after(guard, "somebody", "2001:db8::ffff")
    assert guard.check("somebody", "2001:db8:0:1::1", right)


def test_guesses_from_elsewhere_lock_nobody_out_where_they_have_signed_in_before() -> None:
    # given
    guard = a_guard()
    assert guard.check("ann", "192.0.2.1", right)
    # when
    for number in range(FREE_OF_USER):
        guard.check("ann", f"198.51.100.{number}", wrong)
    for number in range(FREE_OF_ADDRESS):
        guard.check(f"user{number}", "192.0.2.1", wrong)
    # then
    assert pause_after(guard, "ann", "203.0.113.1")
    assert pause_after(guard, "bob", "192.0.2.1")
    assert guard.check("ann", "192.0.2.1", right)


def test_one_address_that_guesses_for_ever_keeps_a_user_out_nowhere_else() -> None:
    # given: Ann has not signed in since the zone's start, and a stranger guesses whenever it may
    clock = FakeClock()
    guard = a_guard(clock)
    for _ in range(1200):
        with suppress(OverLimit):
            guard.check("ann", "198.51.100.1", wrong)
        clock.advance(1)
    with suppress(OverLimit):
        guard.check("ann", "198.51.100.1", wrong)
    # then
    assert guard.check("ann", "192.0.2.1", right)
    assert pause_after(guard, address="198.51.100.1") > 1


def test_guesses_from_where_somebody_has_signed_in_pause_too() -> None:
    guard = a_guard()
    guard.check("ann", "192.0.2.1", right)
    for _ in range(FREE_OF_USER):
        guard.check("ann", "192.0.2.1", wrong)
    assert pause_after(guard, "ann", "192.0.2.1") == 1


def test_old_failures_are_forgotten() -> None:
    clock = FakeClock()
    guard = a_guard(clock)
    for _ in range(FREE_OF_USER):
        guard.check("ann", "192.0.2.1", wrong)
    clock.advance(FORGOTTEN_AFTER_S + 1)
    for _ in range(FREE_OF_USER - 1):
        guard.check("ann", "192.0.2.1", wrong)
    assert guard.check("ann", "192.0.2.1", right)


def test_a_password_that_was_right_before_is_checked_during_every_pause() -> None:
    guard = a_guard()
    for _ in range(FREE_OF_USER):
        guard.check("ann", "192.0.2.1", wrong)
    assert guard.check_again(right)


def test_one_check_runs_at_a_time_and_few_wait_for_it() -> None:
    # given
    guard = a_guard()
    started, go_on = threading.Event(), threading.Event()
    running: list[int] = []

    def slow() -> bool:
        running.append(1)
        started.set()
        assert go_on.wait(10)
        assert len(running) == 1
        running.pop()
        return True

    with ThreadPoolExecutor(8) as pool:
        first = [pool.submit(guard.check, f"user{n}", "192.0.2.1", slow) for n in range(2)]
        assert started.wait(10)
        while guard._in_hand["192.0.2.1"] < 2:
            pass
        # when
        with pytest.raises(ZoneBusy) as of_address:
            guard.check("third", "192.0.2.1", never)
        others = [pool.submit(guard.check, f"other{n}", f"192.0.2.{n}", slow) for n in (2, 3)]
        while guard._in_hand.total() < 4:
            pass
        with pytest.raises(ZoneBusy) as of_all:
            guard.check("fifth", "192.0.2.9", never)
        go_on.set()
        # then
        assert all(one.result() for one in first + others)
    assert of_address.value.code == of_all.value.code == "password_checks_busy"
    assert not guard._in_hand


def test_guesses_that_waited_while_others_failed_are_not_checked() -> None:
    guard = a_guard()
    for _ in range(FREE_OF_USER - 1):
        guard.check("ann", "192.0.2.1", wrong)

    def fails_meanwhile() -> bool:
        # Another call of the same name is past the first look and waits for this one.
        waits = pool.submit(guard.check, "ann", "192.0.2.2", never)
        while guard._in_hand.total() < 2:
            pass
        waiting.append(waits)
        return False

    waiting: list[object] = []
    with ThreadPoolExecutor(1) as pool:
        guard.check("ann", "192.0.2.1", fails_meanwhile)
        (waits,) = waiting
        with pytest.raises(OverLimit):
            waits.result()  # type: ignore[attr-defined]


def test_memory_is_bounded_whatever_names_are_tried() -> None:
    guard = a_guard()
    for number in range(MAX_KEYS + 100):
        guard._count_failure([(f"user {number}", FREE_OF_USER)], "192.0.2.1")
    guard.check("x" * 100_000, "192.0.2.1", wrong)
    assert len(guard._failures) == MAX_KEYS
    assert max(map(len, guard._failures)) < 300


def test_a_pause_is_logged_without_the_name_that_was_tried(caplog: pytest.LogCaptureFixture) -> None:
    guard = a_guard()
    with caplog.at_level(logging.WARNING):
        for _ in range(FREE_OF_USER):
            guard.check("my secret password", "192.0.2.1", wrong)
    assert caplog.messages == ["wrong passwords from 192.0.2.1: the next one is checked in 1 s"]
