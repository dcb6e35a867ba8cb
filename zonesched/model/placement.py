"""The states of a placement and of an instance, and what zones tell each other about one.

`model.placement_moves` says which state follows which.
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


CLAIMING = frozenset({PlacementState.HELD, PlacementState.CONFIRMED, PlacementState.RELEASING})
"""States in which a placement on a local host takes the host's resources."""

WANTED = frozenset(
    {
        PlacementState.INTENDED,
        PlacementState.HELD,
        PlacementState.CONFIRMING,
        PlacementState.CONFIRMED,
    }
)
"""States of a placement that nobody has given up: its instance is, or may still be, built there."""

OCCUPYING = WANTED | {PlacementState.CANCELLING}
"""States of a placement that may have the instance: in any other state the instance may go elsewhere."""

TO_BUILD = frozenset({PlacementState.CONFIRMING, PlacementState.CONFIRMED})
"""States of a placement whose confirm was decided."""

PROMISED = TO_BUILD | {PlacementState.HELD}
"""States of a placement for which resources are, or were, held."""

UNCONFIRMED = frozenset({PlacementState.INTENDED, PlacementState.HELD, PlacementState.CANCELLING})
"""States of a placement whose confirm was never decided, and that ends with its hold."""

UNBUILT = frozenset({PlacementState.CANCELLING, PlacementState.GONE, PlacementState.FAILED})
"""States of a placement that has not led, and will not lead, to a running instance."""

UNANSWERED = frozenset({PlacementState.CONFIRMING, PlacementState.CANCELLING, PlacementState.RELEASING})
"""States of a child's placement in which a call to the child is repeated until it is answered."""

FINAL = frozenset({PlacementState.GONE, PlacementState.FAILED, PlacementState.RELEASED})
"""States that no placement leaves."""

UNFINISHED = frozenset(PlacementState) - FINAL
"""States of a placement that may still need a call to its child."""


ZONE_LOST = "zone_lost"
"""The reason of a placement that ended because its child was removed from this zone."""


class BuildState(enum.Enum):
    """Answer of a zone to its parent about one (uuid, attempt)."""

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
    # It was confirmed once; the instance's status says that it was deleted since.
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
    """Status of one attempt. `hold_s`: seconds left of the hold (0 unless HELD); `reason`: a code."""

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


LIVING_STATUSES = frozenset({InstanceStatus.BUILD, InstanceStatus.ACTIVE, InstanceStatus.UNKNOWN})
"""Statuses of an instance that runs or may still run."""

BUILDING_STATUSES = frozenset({InstanceStatus.BUILD, InstanceStatus.UNKNOWN})
"""Statuses of an instance whose build was not reported yet."""

ENDED_STATUSES = frozenset({InstanceStatus.ERROR, InstanceStatus.DELETED})
"""Statuses that an instance keeps unless its owner or a repair changes them."""


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
