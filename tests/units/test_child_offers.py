"""Counts of a child's offers and refusals, minute by minute."""

from __future__ import annotations

from tests.builders.clock import FakeClock
from zonesched.zones.child_offers import MINUTES, ChildOffers, Minute


def test_each_minute_has_its_own_counts_for_an_hour() -> None:
    clock = FakeClock()
    offers = ChildOffers(clock)
    offers.add("a", has_offer=True)
    offers.add("a", has_offer=False)
    clock.advance(60)
    offers.add("a", has_offer=True)

    assert offers.last_hour("a")[-2:] == (Minute(1, 1), Minute(1, 0))
    assert len(offers.last_hour("a")) == MINUTES
    clock.advance(60 * (MINUTES - 2))
    assert offers.last_hour("a")[:2] == (Minute(1, 1), Minute(1, 0))
    clock.advance(60)
    assert offers.last_hour("a")[0] == Minute(1, 0)
    clock.advance(1e9)
    assert set(offers.last_hour("a")) == {Minute()}


def test_a_child_that_nobody_asked_or_that_is_gone_has_none() -> None:
    offers = ChildOffers(FakeClock())
    offers.add("a", has_offer=True)
    offers.forget(["b"])
    assert {*offers.last_hour("a"), *offers.last_hour("b")} == {Minute()}
