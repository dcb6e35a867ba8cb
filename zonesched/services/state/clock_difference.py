"""Difference between the clock of a process and that of its database.

Processes of a zone compare the times that each has stored: leases, holds and heartbeats. One whose clock is
behind takes over the boots of a dead one too late; one whose clock is ahead takes those of a living one.
"""

from __future__ import annotations

import logging

from zonesched.seams import Clock
from zonesched.store import database_clock
from zonesched.store.store import Store

log = logging.getLogger(__name__)

MOST_S = 2.0
"""Seconds by which clocks of a zone may differ."""

PAUSE_S = 60.0


class ClockDifference:
    """Seconds by which the clock of this process is `ahead_s` of its database's; below 0 where it is behind.

    What the question itself took does not count.
    """

    def __init__(self, clock: Clock, store: Store) -> None:
        self.ahead_s = 0.0
        self._clock = clock
        self._store = store

    @property
    def is_large(self) -> bool:
        """Tell whether the clocks differ by more than those of one zone may."""
        return abs(self.ahead_s) > MOST_S

    def look(self) -> float:
        """Compare the clocks once, and log where they differ; return the seconds until the next look."""
        asked_at = self._clock.now()
        there = self._store.look_up(database_clock.now)
        answered_at = self._clock.now()
        was_large = self.is_large
        self.ahead_s = max(asked_at - there, 0.0) + min(answered_at - there, 0.0)
        if self.is_large:
            log.error(
                "the clock of this machine is %.0f s %s that of the database: set it, since the processes of"
                " a zone compare their leases and heartbeats",
                abs(self.ahead_s),
                "ahead of" if self.ahead_s > 0 else "behind",
            )
        elif was_large:
            log.info("the clock of this machine agrees with that of the database again")
        return PAUSE_S
