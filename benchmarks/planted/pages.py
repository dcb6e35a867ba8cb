"""Bugs of offers that are asked for in pages."""

from __future__ import annotations

from benchmarks.planted.bug import Bug

_PAGE_TESTS = ("tests/trees/test_offer_pages.py", "tests/units/test_merge.py")

OFFERS_IN_PAGES = (
    Bug(
        name="merged past a page that is used up",
        breaks="instances go to worse hosts than the next ones of a child",
        path="zonesched/scheduler/merge.py",
        right="elif number in unread:\n            break",
        wrong="elif False:\n            break",
        tests=_PAGE_TESTS,
    ),
    Bug(
        name="the same page twice",
        breaks="places are offered twice, and as many are never offered",
        path="zonesched/scheduler/shares.py",
        right="return Page(read, count - read)",
        wrong="return Page(0, count - read)",
        tests=_PAGE_TESTS,
    ),
    Bug(
        name="a middle zone's pages all begin with its first offer",
        breaks="places are offered twice, and as many are never offered",
        path="zonesched/services/select/select.py",
        right="merged.entries[page.skip :]",
        wrong="merged.entries[:]",
        tests=_PAGE_TESTS,
    ),
    Bug(
        name="a page that did not come is not missed",
        breaks="a boot that found too few hosts is not tried again",
        path="zonesched/services/select/child_offers.py",
        right="return Done(replace(first, complete=False, more=False))",
        wrong="return Done(replace(first, more=False))",
        tests=_PAGE_TESTS,
    ),
    Bug(
        name="pages for ever",
        breaks="a child that always has more is asked until the time is over",
        path="zonesched/zones/answers.py",
        right=" and len(entries) == page.entries",
        wrong="",
        tests=("tests/units/test_child_answers.py",),
    ),
)
