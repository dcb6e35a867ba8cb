"""Ids that the machine's own clock makes."""

from __future__ import annotations

import re
import time
import uuid

import pytest

from tests.builders.clock import FakeClock
from zonesched.seams import SystemClock

HINT_OF_GOPHERCLOUD = re.compile("[a-z0-9]{8}-[a-z0-9]{4}-[1-5][a-z0-9]{3}-[a-z0-9]{4}-[a-z0-9]{12}")
"""Form of the ids that it takes, of server groups (`group`) and servers (`same_host`, `different_host`)."""


def test_an_id_tells_when_it_was_made_and_nothing_else() -> None:
    before_ms = time.time_ns() // 1_000_000

    clock = SystemClock()
    ids = [*map(uuid.UUID, clock.new_uuids(500)), *(uuid.UUID(clock.new_uuid()) for _ in range(500))]

    after_ms = time.time_ns() // 1_000_000
    assert {(i.version, i.variant) for i in ids} == {(4, uuid.RFC_4122)}
    assert all(before_ms <= i.int >> 80 <= after_ms for i in ids)
    # Each of the 74 other bits is now 0 and now 1.
    seen_0, seen_1 = 0, 0
    for i in ids:
        seen_0, seen_1 = seen_0 | ~i.int, seen_1 | i.int
    fixed = 0xF << 76 | 0b11 << 62
    varying = ((1 << 80) - 1) & ~fixed
    assert seen_0 & seen_1 & varying == varying


def test_an_id_has_the_form_that_gophercloud_takes_as_a_hint() -> None:
    ids = [SystemClock().new_uuid(), *SystemClock().new_uuids(100)]

    assert [id for id in ids if not HINT_OF_GOPHERCLOUD.fullmatch(id)] == []


def test_no_id_is_given_twice() -> None:
    clock = SystemClock()

    assert len({*clock.new_uuids(10_000), *(clock.new_uuid() for _ in range(10_000))}) == 20_000


def test_the_clock_of_the_tests_names_the_method_that_sets_it_back() -> None:
    with pytest.raises(ValueError, match="use ") as refused:
        FakeClock().advance(-1.0)
    assert callable(getattr(FakeClock, str(refused.value).rpartition(" ")[2]))
