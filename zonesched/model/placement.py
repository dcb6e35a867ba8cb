"""The life of one instance's place: the states that rows and answers between zones go through.

    INTENDED -> HELD -> CONFIRMING -> CONFIRMED -> RELEASING -> RELEASED
        |         |          |            |
        +-- CANCELLING ------+-> GONE     +-> FAILED (the build failed)
        +-> FAILED (no room, or the entry does not open)

A place on an own host knows neither INTENDED, CONFIRMING, CANCELLING nor RELEASING: each of its changes is
one transaction here. For a child's place they say that a call was decided and its answer is not known yet.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class PlacementState(enum.Enum):
    # An enumeration's own is written in Python, and states are looked up for every place of a boot.
    __hash__ = object.__hash__

    INTENDED = "intended"
    HELD = "held"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    CANCELLING = "cancelling"
    GONE = "gone"
    FAILED = "failed"
    RELEASING = "releasing"
    RELEASED = "released"


CLAIMING = frozenset({PlacementState.HELD, PlacementState.CONFIRMED})
"""States in which a place on an own host takes the host's resources."""

LIVING = frozenset(
    {
        PlacementState.INTENDED,
        PlacementState.HELD,
        PlacementState.CONFIRMING,
        PlacementState.CONFIRMED,
    }
)
"""States in which an instance is, or may still become, built at this place."""


ZONE_LOST = "zone_lost"
"""Why a place in a child came to nothing, or ended: the child is no longer a child of this zone."""


class BuildState(enum.Enum):
    """What a zone answers its parent about one (uuid, attempt)."""

    HELD = "held"
    CONFIRMED = "confirmed"
    GONE = "gone"
    FAILED = "failed"
    PENDING = "pending"


BUILD_STATE_OF = {
    PlacementState.INTENDED: BuildState.PENDING,
    PlacementState.HELD: BuildState.HELD,
    PlacementState.CONFIRMING: BuildState.PENDING,
    PlacementState.CONFIRMED: BuildState.CONFIRMED,
    PlacementState.CANCELLING: BuildState.PENDING,
    PlacementState.GONE: BuildState.GONE,
    PlacementState.FAILED: BuildState.FAILED,
    # Once built, it was confirmed; that it was deleted since is told by the instance's status.
    PlacementState.RELEASING: BuildState.CONFIRMED,
    PlacementState.RELEASED: BuildState.CONFIRMED,
}


@dataclass(frozen=True)
class Build:
    """One build of a parent's call: the attempt of an instance, and the entries to try in order.

    `name`: what this zone calls the instance; "" for its uuid.
    """

    uuid: str
    attempt: int
    blobs: tuple[str, ...]
    name: str = ""


class Attempt(NamedTuple):
    """The key that a parent's later calls name."""

    uuid: str
    attempt: int


@dataclass(frozen=True)
class BuildAnswer:
    """Where one attempt stands. `hold_s`: how long it is still held (0 unless HELD); `reason`: a code."""

    uuid: str
    attempt: int
    state: BuildState
    hold_s: float = 0.0
    reason: str = ""


class InstanceStatus(enum.Enum):
    """OpenStack's statuses, as far as a scheduler knows them."""

    __hash__ = object.__hash__

    BUILD = "BUILD"
    ACTIVE = "ACTIVE"
    ERROR = "ERROR"
    DELETED = "DELETED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class InstanceChange:
    """One line of what a child tells its parent when asked what has changed.

    `state`: where the attempt stands, as a build or confirm of it would be answered. FAILED is its end, and
    nothing is left of it there; an instance in ERROR whose attempt is CONFIRMED was built and ended since.
    """

    uuid: str
    attempt: int
    status: InstanceStatus
    state: BuildState
    reason: str = ""
