"""Observed state of a built instance."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Power(enum.Enum):
    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    OFFLOADED = "offloaded"
    """Of an instance without a place: nothing of it is left on any host."""


@dataclass(frozen=True)
class Resizes:
    """How many resizes of an instance were begun, and how many of those were confirmed or reverted."""

    begun: int = 0
    confirmed: int = 0
    reverted: int = 0

    @property
    def is_open(self) -> bool:
        """Tell whether the last one is neither confirmed nor reverted."""
        return self.begun > self.confirmed + self.reverted

    def lacks(self, other: Resizes) -> bool:
        """Tell whether the other counts have a resize, a confirm or a revert that these do not."""
        return self.begun < other.begun or self.confirmed < other.confirmed or self.reverted < other.reverted


NO_RESIZES = Resizes()
"""The counts of an instance that was never resized at its place."""


MAX_ADOPTED = 2**30
"""Limit of the generations that a zone takes over from agents and child zones: as many are left above it."""


def is_ahead(generation: int, desired_generation: int) -> bool:
    """Tell whether a generation that an agent or a child zone names is later, and is taken over."""
    return desired_generation < generation <= MAX_ADOPTED


@dataclass(frozen=True)
class Observed:
    """The last report on an instance: its power, and the newest generation that was applied or refused.

    `reason`: a stable code if that generation was refused or failed, or if the power changed by itself.
    `rebuilds`: how many of the rebuilds that were ever asked for are done or passed over. `resizes`: those
    that are done; agents know of none, and the zone that has the instance counts them.
    """

    generation: int = 0
    power: Power = Power.RUNNING
    reason: str = ""
    rebuilds: int = 0
    resizes: Resizes = NO_RESIZES


def are_too_many(observed: Observed, rebuilds: int, resizes: Resizes) -> bool:
    """Tell whether more rebuilds or resizes are reported than were asked for and can be taken over.

    Only a lying child counts so many: no zone could be told the next one.
    """
    most_rebuilds, most_resizes = max(rebuilds, MAX_ADOPTED), max(resizes.begun, MAX_ADOPTED)
    return observed.rebuilds > most_rebuilds or observed.resizes.begun > most_resizes


@dataclass(frozen=True, order=True)
class MoveCounts:
    """How many moves of an instance have begun, and how many have ended. Later counts are larger."""

    begun: int = 0
    ended: int = 0


NO_MOVES = MoveCounts()
"""The counts of an instance that has never moved."""
