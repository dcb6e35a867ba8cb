"""Children that answer polls and selects, and hang when they are to hold: boots use their offers last.

For a while, and known to this process alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from zonesched.seams import Clock

HOLD_TIMEOUT = "child_hold_timeout"
"""Code of a child that did not answer the last call for holds in time."""

PAUSE_S = 60.0
MAX_PAUSE_S = 960.0
"""Seconds for which its offers come after all others: doubled each time."""


@dataclass(frozen=True)
class SlowToHold:
    """A child after so many `timeouts` in a row; its offers come last before `until` (monotonic seconds)."""

    timeouts: int
    until: float


class ChildHolds:
    """The children that did not answer their last call for holds in time, by id, for all threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._slow: dict[str, SlowToHold] = {}

    def answered(self, child_id: str) -> None:
        """Take in that a child has answered a call for holds."""
        # Most never hang: no lock for them.
        if child_id in self._slow:
            with self._lock:
                self._slow.pop(child_id, None)

    def timed_out(self, child_id: str) -> None:
        """Take in that a child has not answered a call for holds, though it had the time."""
        with self._lock:
            self._slow[child_id] = _after_timeout(self._slow.get(child_id), self._clock.monotonic())

    def last(self) -> frozenset[str]:
        """Return the ids of the children whose offers come after all others now."""
        if not self._slow:
            return frozenset()
        now = self._clock.monotonic()
        with self._lock:
            return frozenset(child_id for child_id, slow in self._slow.items() if slow.until > now)

    def error(self, child_id: str) -> str:
        """Return the code of a child that did not answer its last call for holds, "" for another."""
        return HOLD_TIMEOUT if child_id in self._slow else ""

    def forget(self, known: Iterable[str]) -> None:
        """Drop the children that are no longer registered."""
        with self._lock:
            for child_id in self._slow.keys() - set(known):
                del self._slow[child_id]


def _after_timeout(before: SlowToHold | None, now: float) -> SlowToHold:
    if before is None:
        return SlowToHold(1, now + PAUSE_S)
    # Calls that had begun before the first one timed out count as that one.
    if now < before.until:
        return before
    return SlowToHold(before.timeouts + 1, now + min(MAX_PAUSE_S, PAUSE_S * 2 ** min(before.timeouts, 10)))
