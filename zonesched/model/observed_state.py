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
    """It has no place: nothing of it is left on any host."""


@dataclass(frozen=True)
class Observed:
    """The last report on an instance: its power, and the newest generation that was applied or refused.

    `reason`: a stable code if that generation was refused or failed, or if the power changed by itself.
    `rebuilds`: how many of the rebuilds that were ever asked for are done or passed over.
    """

    generation: int = 0
    power: Power = Power.RUNNING
    reason: str = ""
    rebuilds: int = 0


@dataclass(frozen=True, order=True)
class MoveCounts:
    """How many moves of an instance have begun, and how many have ended. Later counts are larger."""

    begun: int = 0
    ended: int = 0


NO_MOVES = MoveCounts()
"""The counts of an instance that has never moved."""
