"""The share of a request that each child is first asked for."""

from __future__ import annotations

import pytest

from zonesched.model.offer_page import WHOLE, Page
from zonesched.scheduler.shares import first_page, next_page


@pytest.mark.parametrize(
    ("count", "zones", "page"),
    [
        (1, 3, WHOLE),
        (100, 3, WHOLE),
        (150, 3, Page(0, 100)),
        (1000, 1, WHOLE),
        (1000, 3, Page(0, 500)),
        (1000, 8, Page(0, 188)),
        (1000, 100, Page(0, 100)),
    ],
)
def test_a_share_is_half_as_much_again_as_is_likely_and_not_too_small(
    count: int, zones: int, page: Page
) -> None:
    assert first_page(count, zones, least=100) == page


def test_the_next_page_is_all_that_can_still_be_used() -> None:
    assert next_page(1000, 188) == Page(188, 812)
    assert next_page(1000, 188).end == 1000
