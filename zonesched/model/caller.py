"""The caller of a request."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

AGENT_HEADER = "X-Zonesched-Agent"
AGENT_HOME_HEADER = "X-Zonesched-Agent-Home"
"""Header of an agent's calls with the id that it keeps in its state folder."""


class Role(enum.Enum):
    """Role of a user of a zone; each user has one."""

    ADMIN = "admin"
    MEMBER = "member"
    READER = "reader"
    COMPUTE = "compute"
    PARENT = "parent"
    MONITOR = "monitor"


class Explained(enum.Enum):
    """Detail of the refusals that a parent may see; AS_THE_ZONE follows explain_to_parent."""

    AS_THE_ZONE = "default"
    NONE = "none"
    REASONS = "reasons"
    COUNTS = "counts"


@dataclass(frozen=True)
class Caller:
    """An authenticated user of this zone. A parent zone's `project_id` is unused: each spec names its own.

    `explained`: detail of the refusals that a parent may see. `agent_id`: the id that an agent keeps in its
    state folder, "" for one without. `agent_home`: another one for each copy of that folder and each boot of
    its machine. `proof`: the stored hash that the caller's password or secret fits, "" where none is needed.
    """

    user_id: str
    name: str
    role: Role
    project_id: str
    explained: Explained = Explained.AS_THE_ZONE
    agent_id: str = ""
    agent_home: str = ""
    proof: str = field(default="", repr=False, compare=False)
