"""Turns in which many children are asked, so that no request to this zone meets the work of asking all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 8
"""Children of one turn: asking them takes a zone two milliseconds of processor time."""


def turns_of(count: int, most: float = math.inf) -> int:
    """Return the number of turns for so many children, at least 1 and otherwise at `most`."""
    return int(max(1, min(math.ceil(count / AT_ONCE), most)))


def share(children: Sequence[T], turn: int, turns: int) -> Sequence[T]:
    """Return the children whose turn it is; each is in one of the turns from 0 on."""
    return children[turn::turns]
