"""A child may report changes in proportion to its placements; more of them bring growing pauses."""

from __future__ import annotations

from zonesched.services.children.feed_allowance import (
    FREE_LINES,
    LINES_PER_PLACEMENT,
    LONGEST_PAUSE_S,
    WINDOW_S,
    FeedAllowance,
)

CHILD = "child"


def none() -> int:
    return 0


def test_changes_in_proportion_to_the_placements_bring_no_pause() -> None:
    allowance = FeedAllowance()

    pauses = [allowance.spend(CHILD, 10_000, lambda: 100_000, 1.0) for _ in range(81)]

    assert (max(pauses), allowance.may_ask(CHILD, 1.0)) == (0.0, True)


def test_placements_are_not_counted_for_each_page() -> None:
    """A child of a hundred thousand placements takes a parent milliseconds to count."""
    allowance = FeedAllowance()
    counts: list[int] = []

    def count() -> int:
        counts.append(100_000)
        return 100_000

    for _ in range(100):
        allowance.spend(CHILD, 1000, count, 1.0)

    assert len(counts) == 1


def test_one_more_than_the_placements_can_have_brings_a_pause() -> None:
    allowance = FeedAllowance()
    allowance.spend(CHILD, FREE_LINES + LINES_PER_PLACEMENT * 5, lambda: 5, 1.0)

    pause_s = allowance.spend(CHILD, 1, lambda: 5, 2.0)

    assert pause_s == WINDOW_S
    assert not allowance.may_ask(CHILD, 1.0 + WINDOW_S)
    assert allowance.may_ask(CHILD, 2.0 + WINDOW_S)
    assert allowance.may_ask("another", 2.0)


def test_pauses_grow_as_long_as_it_goes_on_and_end_at_the_longest() -> None:
    allowance, now, pauses = FeedAllowance(), 0.0, []
    for _ in range(5):
        pauses.append(allowance.spend(CHILD, FREE_LINES + 1, none, now))
        now += pauses[-1]

    assert pauses == [WINDOW_S, 2 * WINDOW_S, 4 * WINDOW_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_window_without_too_many_ends_the_growth() -> None:
    allowance = FeedAllowance()
    first_s = allowance.spend(CHILD, FREE_LINES + 1, none, 0.0)
    allowance.spend(CHILD, FREE_LINES, none, first_s)

    assert allowance.spend(CHILD, FREE_LINES + 1, none, first_s + WINDOW_S) == WINDOW_S


def test_steady_changes_start_anew_with_each_window() -> None:
    allowance = FeedAllowance()

    pauses = [allowance.spend(CHILD, FREE_LINES // 10, none, number * WINDOW_S / 10) for number in range(100)]

    assert max(pauses) == 0.0


def test_placements_are_counted_only_for_a_child_with_many_changes() -> None:
    def not_needed() -> int:
        raise AssertionError

    assert FeedAllowance().spend(CHILD, FREE_LINES, not_needed, 0.0) == 0.0


def test_a_child_that_was_removed_is_forgotten() -> None:
    allowance = FeedAllowance()
    allowance.spend(CHILD, FREE_LINES + 1, none, 0.0)

    allowance.keep(["another"])

    assert allowance.may_ask(CHILD, 0.0)
