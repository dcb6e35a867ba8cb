"""Offers of several zones, merged into one plan, of which some have told only the beginning."""

from __future__ import annotations

from dataclasses import replace

from zonesched.model.build_plan import ChildBlob, Entry
from zonesched.scheduler.sources import Source, merge_sources


def a_source(name: str, *weights: int, more: bool = False, unreliable: bool = False) -> Source:
    entries = tuple(Entry(weight, 0, ChildBlob(name, f"{name}-{n}")) for n, weight in enumerate(weights))
    return Source(name, entries, (), (), unreliable, more)


def weights(entries: tuple[Entry, ...]) -> list[int]:
    return [entry.weight for entry in entries]


def test_a_source_that_is_used_up_is_read_on_before_anything_worse_is_taken() -> None:
    merged = merge_sources([a_source("a", 1, 2, more=True), a_source("b", 5, 6, 7, 8)], 4, 0)

    assert (weights(merged.entries), merged.unread) == ([1, 2], ("a",))


def test_nothing_is_read_on_once_there_are_enough() -> None:
    merged = merge_sources([a_source("a", 1, 2, more=True), a_source("b", 5)], 2, 1)

    assert (weights(merged.entries), weights(merged.alternates), merged.unread) == ([1, 2], [5], ())


def test_one_of_which_little_is_left_is_read_on_together_with_one_that_is_used_up() -> None:
    nearly = a_source("b", 1, 1, 1, 9, more=True)
    far_from = a_source("c", 1, 9, 9, 9, more=True)

    merged = merge_sources([nearly, far_from, a_source("a", 1, more=True)], 9, 0)

    assert merged.unread == ("b", "a")


def test_one_that_has_told_an_entry_for_each_pick_is_not_read_on() -> None:
    # given: two entries of eight are left of it when the other one is used up
    told = a_source("b", *[1] * 6, 9, 9, more=True)

    # when
    merged = merge_sources([told, a_source("a", 2, more=True)], 8, 0)

    # then
    assert (weights(merged.entries), merged.unread) == ([*[1] * 6, 2], ("a",))


def test_unreliable_sources_wait_until_all_others_are_read() -> None:
    unreliable = a_source("b", 1, 1, 1, unreliable=True)
    first = a_source("a", 5, more=True)

    assert merge_sources([first, unreliable], 3, 0).unread == ("a",)
    assert weights(merge_sources([replace(first, more=False), unreliable], 3, 0).entries) == [5, 1, 1]
