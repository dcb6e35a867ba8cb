"""The share of a request that each child zone is first asked for.

A zone that asked each of ten children for all instances would use a tenth of the sealed entries that it
gets. So it asks each for a share, and for more only where a share was used up.
"""

from __future__ import annotations

import math

from zonesched.model.offer_page import WHOLE, Page

SLACK = 1.5
"""Entries to ask for by entries that are used if all zones offer alike: a second question costs a round trip,
as much as some hundred entries."""


def first_page(count: int, zones: int, least: int) -> Page:
    """Return the page that a child is first asked for if `zones` zones offer places for `count` instances.

    It has `least` entries or more; WHOLE if those are all.
    """
    entries = max(least, math.ceil(SLACK * count / zones))
    return Page(0, entries) if entries < count else WHOLE


def next_page(count: int, read: int) -> Page:
    """Return the page after the first `read` entries: all that can still be used."""
    return Page(read, count - read)
