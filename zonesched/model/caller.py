"""Who asks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Role(enum.Enum):
    """What a user of a zone may do; each user has one role."""

    ADMIN = "admin"
    MEMBER = "member"
    READER = "reader"
    COMPUTE = "compute"
    PARENT = "parent"


class Explained(enum.Enum):
    """How much of why hosts were refused a parent is told; AS_THE_ZONE: as explain_to_parent says."""

    AS_THE_ZONE = "default"
    NONE = "none"
    REASONS = "reasons"
    COUNTS = "counts"


@dataclass(frozen=True)
class Caller:
    """An authenticated user of this zone. A parent zone's `project_id` is not used: its specs name theirs.

    `told`: for a parent, how much of why hosts were refused.
    """

    user_id: str
    name: str
    role: Role
    project_id: str
    told: Explained = Explained.AS_THE_ZONE
