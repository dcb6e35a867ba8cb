"""A process whose clock differs from that of its database says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.migrated import a_database
from tests.builders.stores import open_store
from zonesched.services.state.clock_difference import ClockDifference
from zonesched.store import database_clock
from zonesched.store.store import Store

pytestmark = pytest.mark.postgresql


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(a_database(tmp_path / "zone.sqlite"))
    yield store
    store.close()


@pytest.mark.parametrize(("ahead_s", "words"), [(7200.0, "7200 s ahead of"), (-7200.0, "7200 s behind")])
def test_a_clock_that_differs_is_named_until_it_agrees(
    store: Store, caplog: pytest.LogCaptureFixture, ahead_s: float, words: str
) -> None:
    clock = FakeClock(store.look_up(database_clock.now) + ahead_s)
    difference = ClockDifference(clock, store)

    with caplog.at_level(logging.INFO):
        difference.look()
        differs, said = difference.is_large, caplog.text
        clock.set_to(clock.now() - ahead_s)
        difference.look()

    assert (differs, difference.is_large) == (True, False)
    assert f"the clock of this machine is {words} that of the database" in said
    assert "agrees with that of the database again" in caplog.text
