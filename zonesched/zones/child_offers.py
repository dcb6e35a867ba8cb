"""Offers and refusals of each child zone in the last hour, by minute, of this process alone."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zonesched.seams import Clock

MINUTES = 60


@dataclass(frozen=True)
class Minute:
    """Selects that a child answered with an offer, and those that it did not."""

    offers: int = 0
    refusals: int = 0

    @property
    def selects(self) -> int:
        return self.offers + self.refusals


@dataclass
class _Hour:
    """`by_minute` ends with the minute `last`, counted on the monotonic clock."""

    last: int
    by_minute: list[Minute] = field(default_factory=lambda: [Minute()] * MINUTES)

    def move_to(self, minute: int) -> None:
        passed = min(MINUTES, max(0, minute - self.last))
        self.by_minute = self.by_minute[passed:] + [Minute()] * passed
        self.last += max(0, minute - self.last)


class ChildOffers:
    """Counts of selects by child id, for all threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._hours: dict[str, _Hour] = {}

    def add(self, child_id: str, *, has_offer: bool) -> None:
        """Count the end of a select."""
        with self._lock:
            hour = self._hour(child_id)
            now = hour.by_minute[-1]
            hour.by_minute[-1] = Minute(now.offers + has_offer, now.refusals + (not has_offer))

    def last_hour(self, child_id: str) -> Sequence[Minute]:
        """Return the counts of 60 minutes, the present one last."""
        with self._lock:
            return tuple(self._hour(child_id).by_minute) if child_id in self._hours else (Minute(),) * MINUTES

    def forget(self, known: Iterable[str]) -> None:
        """Drop the counts of children that are no longer registered."""
        with self._lock:
            for child_id in self._hours.keys() - set(known):
                del self._hours[child_id]

    def _hour(self, child_id: str) -> _Hour:
        minute = int(self._clock.monotonic() // 60)
        hour = self._hours.setdefault(child_id, _Hour(minute))
        hour.move_to(minute)
        return hour
