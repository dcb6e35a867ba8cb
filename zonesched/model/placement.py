"""The states of placements and instances, and the messages of zones about them.

`model.placement_moves` has the legal moves between states.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from zonesched.model.observed_state import NO_MOVES, MoveCounts, Observed


class PlacementState(enum.Enum):
    # Enum's own hash is written in Python, and states are hashed for every placement of a boot.
    __hash__ = object.__hash__

    INTENDED = "intended"
    HELD = "held"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    CANCELLING = "cancelling"
    GONE = "gone"
    FAILED = "failed"
    PARKED = "parked"
    RELEASING = "releasing"
    RELEASED = "released"


CLAIMING = frozenset(
    {PlacementState.HELD, PlacementState.CONFIRMED, PlacementState.PARKED, PlacementState.RELEASING}
)
"""States in which a placement on a local host takes the host's resources."""

WANTED = frozenset(
    {
        PlacementState.INTENDED,
        PlacementState.HELD,
        PlacementState.CONFIRMING,
        PlacementState.CONFIRMED,
    }
)
"""States of a placement that is still wanted: its instance is, or may still be, built there."""

OCCUPYING = WANTED | {PlacementState.CANCELLING, PlacementState.PARKED}
"""States of a placement that may have the instance: in any other state the instance may go elsewhere."""

TO_BUILD = frozenset({PlacementState.CONFIRMING, PlacementState.CONFIRMED})
"""States of a placement whose confirm was decided."""

HOLDS_INSTANCE = TO_BUILD | {PlacementState.PARKED}
"""States of a present placement that has, or is to have, the built instance."""

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

LOST_IN_RESTORE = "lost_in_restore"
"""Reason of an instance that restored rows had and nobody has: it has ended since, or was never built."""

BELIEVED_LOST = frozenset({"deleted_in_child", "lost_in_child", "place_lost", ZONE_LOST, LOST_IN_RESTORE})
"""Reasons of an ERROR because an instance was not found; if it is found, its owner still wants it."""

HOLD_LATE = "hold_late"
GROUP_BROKEN = "group_broken"
NOT_KEPT = frozenset({HOLD_LATE, GROUP_BROKEN})
"""Reasons of holds that their zone gave up for the sake of other places: no fault of the child that held."""


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
    # A place inside this zone that a move has left, or returns to.
    PlacementState.PARKED: BuildState.CONFIRMED,
    # The placement was confirmed; the instance's status tells that it was deleted since.
    PlacementState.RELEASING: BuildState.CONFIRMED,
    PlacementState.RELEASED: BuildState.CONFIRMED,
}


@dataclass(frozen=True)
class Build:
    """One build of a parent's call: the attempt of an instance, and the entries to try in order.

    `name`: name of the instance in this zone; "" for its uuid.
    """

    uuid: str
    attempt: int
    blobs: tuple[str, ...]
    name: str = ""


class Attempt(NamedTuple):
    """Key of an attempt in a parent's later calls."""

    uuid: str
    attempt: int


class BuildAnswer(NamedTuple):
    """Status of one attempt. `hold_s`: seconds left of the hold (0 unless HELD); `reason`: a code."""

    uuid: str
    attempt: int
    state: BuildState
    hold_s: float = 0.0
    reason: str = ""


class InstanceStatus(enum.Enum):
    """The OpenStack statuses that a scheduler uses. OFFLOADED: SHELVED_OFFLOADED, at rest without a place."""

    __hash__ = object.__hash__

    BUILD = "BUILD"
    ACTIVE = "ACTIVE"
    ERROR = "ERROR"
    DELETED = "DELETED"
    UNKNOWN = "UNKNOWN"
    OFFLOADED = "OFFLOADED"


LIVING_STATUSES = frozenset({InstanceStatus.BUILD, InstanceStatus.ACTIVE, InstanceStatus.UNKNOWN})
"""Statuses of an instance that runs or may still run."""

BUILDING_STATUSES = frozenset({InstanceStatus.BUILD, InstanceStatus.UNKNOWN})
"""Statuses of an instance whose build was not reported yet."""

ENDED_STATUSES = frozenset({InstanceStatus.ERROR, InstanceStatus.DELETED})
"""Statuses that an instance keeps unless its owner or a repair changes them."""

PLACELESS_STATUSES = ENDED_STATUSES | {InstanceStatus.OFFLOADED}
"""Statuses of an instance that takes no resources of any host, and that no worker places."""

COUNTED_STATUSES = LIVING_STATUSES | {InstanceStatus.OFFLOADED}
"""Statuses of an instance that counts against its project's or its parent's quota."""


@dataclass(frozen=True)
class InstanceChange:
    """One changed instance in a child's report to its parent.

    `state`: state of the attempt, as in the answer to a build or confirm of it. After FAILED nothing is left
    of the attempt there; an instance in ERROR whose attempt is CONFIRMED was built and has ended since.
    `observed`: None for an instance that never had an action or a move, and has not ended by itself.
    """

    uuid: str
    attempt: int
    status: InstanceStatus
    state: BuildState
    reason: str = ""
    observed: Observed | None = None
    moves: MoveCounts = NO_MOVES
