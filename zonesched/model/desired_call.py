"""Desired states on their way from a zone to the child that has the instances, and the child's answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from zonesched.model.desired_state import Desired
from zonesched.model.observed_state import Power
from zonesched.model.placement import Attempt

MAX_PER_CALL = 1000

MAX_IMAGES = 8
"""Different images in one call."""


@dataclass(frozen=True)
class DesiredOf:
    """The desired state of one attempt of an instance."""

    uuid: str
    attempt: int
    desired: Desired

    @property
    def key(self) -> Attempt:
        return Attempt(self.uuid, self.attempt)


class Taken(enum.Enum):
    """STORED: the child has this desired state or a later one. GONE: it does not have the attempt.

    DIFFERENT: it has another desired state of the same generation, since one of the two databases was put
    back from a copy. UNSUPPORTED: it is of a version without this call.
    """

    STORED = "stored"
    DIFFERENT = "different"
    GONE = "gone"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class DesiredAnswer:
    """A child's answer for one attempt; the numbers are those that it has stored, 0 where it has none."""

    uuid: str
    attempt: int
    taken: Taken
    generation: int = 0
    reboots: int = 0
    rebuilds: int = 0

    @property
    def key(self) -> Attempt:
        return Attempt(self.uuid, self.attempt)


def contradicts(stored: Desired, desired: Desired) -> bool:
    """Tell whether two desired states of one generation ask for different things."""
    return stored.generation == desired.generation and _asked(stored) != _asked(desired)


def _asked(desired: Desired) -> tuple[Power, int, int]:
    return desired.power, desired.reboots, desired.rebuilds
