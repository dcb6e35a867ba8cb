"""Times in which a zone listened to its agents: only these count when it judges how long one was silent.

A process that is stopped, starved or asleep reads no calls, and while the database takes no writes no
heartbeat is kept. Its own heartbeat, which goes to the same rows, then comes late as well, so the process
knows of such a gap before any agent has called again. One whose zone was stopped finds the last heartbeat of
any process in the rows. While another process listens, agents call that one, and the rows have it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zonesched.seams import Clock
from zonesched.store import services
from zonesched.store.services import Service

LATE = 1 / 3
"""Part of `service_down_time` that makes a gap without an own heartbeat; these come twice as often."""

MAX_GAPS = 100


@dataclass(frozen=True)
class Gap:
    """Time between two own heartbeats, in epoch seconds, in which no agent may have been heard."""

    began_at: float
    ended_at: float


@dataclass(frozen=True)
class Listened:
    """Time in which a process has listened: all `until` now, in epoch seconds, but these last gaps.

    `ahead_s`: seconds by which the clock was ahead before it was last set back.
    """

    until: float
    gaps: tuple[Gap, ...] = ()
    ahead_s: float = 0.0

    def go_on(self, now: float, late_s: float) -> Listened:
        """Go on until now: over a gap if that is late."""
        if now < self.until:
            # The clock was set back: the times of gaps are those of another clock.
            return Listened(now, ahead_s=self.until - now)
        if now - self.until <= late_s:
            return replace(self, until=now)
        return replace(self, until=now, gaps=(*self.gaps, Gap(self.until, now))[-MAX_GAPS:])

    def stretched(self, seconds: float) -> float:
        """Return the seconds until now that hold so many of listening."""
        total = seconds
        for gap in reversed(self.gaps):
            if gap.ended_at > self.until - total:
                total += gap.ended_at - gap.began_at
        return total


@dataclass(frozen=True)
class Liveness:
    """Rule that tells who is up at one moment, `now` in epoch seconds; `ahead_s` as in `Listened`."""

    now: float
    down_time_s: float
    ahead_s: float = 0.0

    def heard_at(self, last_seen_at: float) -> float:
        """Return the time of a heartbeat by the present clock, also where it was written before a set-back.

        Without that, every agent would be down from the moment of the set-back until its next call.
        """
        is_of_the_fast_clock = last_seen_at > self.now + self.down_time_s
        return last_seen_at - self.ahead_s if is_of_the_fast_clock else last_seen_at

    def is_up(self, last_seen_at: float) -> bool:
        """Tell whether a service with this last heartbeat is up."""
        return services.is_up(self.heard_at(last_seen_at), self.now, self.down_time_s)


class Listening:
    """How long this process has listened, by its own heartbeats.

    `service_down_time_s`: seconds of silence after which an agent is down. `noted_at`: time of the last
    heartbeat of any process of the zone; None before the first one, until which nothing counts as a gap.
    """

    def __init__(self, clock: Clock, service_down_time_s: float, noted_at: float | None = None) -> None:
        self._clock = clock
        self._down_time_s = service_down_time_s
        self._listened = None if noted_at is None else Listened(noted_at)

    def note(self) -> None:
        """Note that this process has written a heartbeat of its own."""
        now = self._clock.now()
        self._listened = Listened(now) if self._listened is None else self._until(now, self._listened)

    def stretched(self, seconds: float) -> float:
        """Return the seconds of the clock until now in which this process has listened for so many."""
        listened = self._listened
        return seconds if listened is None else self._until(self._clock.now(), listened).stretched(seconds)

    def down_time_s(self) -> float:
        """Return the seconds without a heartbeat after which an agent is down now."""
        return self.stretched(self._down_time_s)

    def liveness(self) -> Liveness:
        """Return the rule that tells who is up now."""
        now, listened = self._clock.now(), self._listened
        if listened is None:
            return Liveness(now, self._down_time_s)
        listened = self._until(now, listened)
        return Liveness(now, listened.stretched(self._down_time_s), listened.ahead_s)

    def hears(self, service: Service) -> bool:
        """Tell whether a service is up, by its heartbeats and its admin state."""
        return self.liveness().is_up(service.last_seen_at) and not service.forced_down

    def _until(self, now: float, listened: Listened) -> Listened:
        return listened.go_on(now, self._down_time_s * LATE)
