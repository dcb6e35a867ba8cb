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


@dataclass(frozen=True)
class Caller:
    """An authenticated user of this zone. A parent zone's `project_id` is not used: its specs name theirs."""

    user_id: str
    name: str
    role: Role
    project_id: str
