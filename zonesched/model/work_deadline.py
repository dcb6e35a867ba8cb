"""Deadline of the work for one request, which also ends once nobody waits for its result.

>>> now = iter([0.0, 0.5, 1.0])
>>> deadline = WorkDeadline.after(lambda: next(now), 1.0)
>>> (deadline.has_passed, deadline.has_passed)
(False, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from zonesched.errors import CallerGone, Unavailable

T = TypeVar("T")

CHUNK = 16
"""Items of a loop between two reads of the clock."""


class OutOfTime(Unavailable):
    """The request's time budget is used up, so the rest of its work is not done."""

    code = "out_of_time"

    def __init__(self) -> None:
        super().__init__("The time budget of the request is used up.")


def always() -> bool:
    """Return True: the result is wanted whoever waits for it."""
    return True


@dataclass(frozen=True)
class WorkDeadline:
    """A time `at` of a monotonic clock, in seconds; `monotonic` reads that clock.

    `is_wanted` tells whether somebody still waits for the result.
    """

    monotonic: Callable[[], float]
    at: float
    is_wanted: Callable[[], bool] = always

    @classmethod
    def after(
        cls, monotonic: Callable[[], float], seconds: float, is_wanted: Callable[[], bool] = always
    ) -> WorkDeadline:
        """Return the deadline that many seconds from now."""
        return cls(monotonic, monotonic() + seconds, is_wanted)

    def at_least(self, seconds: float) -> WorkDeadline:
        """Return this deadline, or the one that many seconds from now if that is later."""
        at = max(self.at, self.monotonic() + seconds)
        return WorkDeadline(self.monotonic, at, self.is_wanted)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; 0 or less once it has passed."""
        return self.at - self.monotonic()

    @property
    def has_passed(self) -> bool:
        """Tell whether no time is left."""
        return self.monotonic() >= self.at

    def check(self) -> None:
        """Raise OutOfTime if no time is left, CallerGone if nobody waits for the result."""
        self.check_wanted()
        if self.has_passed:
            raise OutOfTime

    def check_wanted(self) -> None:
        """Raise CallerGone if nobody waits for the result."""
        if not self.is_wanted():
            raise CallerGone

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; between two chunks of them raise as `check` does."""
        for number, item in enumerate(items):
            if number % CHUNK == 0:
                self.check()
            yield item


NO_DEADLINE = WorkDeadline(lambda: 0.0, math.inf)
