"""Instances between a zone and its agents: what an agent is to have, and what it reports."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from zonesched.model.desired_state import Desired
from zonesched.model.observed_state import Observed
from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import Flavor, Image


@dataclass(frozen=True)
class DesiredInstance:
    """Instance that should run on a host; `host` is the host's name, `status` the last one reported.

    `leaves_for`: it is to be stopped and kept, since it moves to its placement of that number; 0 for none.
    `moved_from`: number of the placement that it comes from, until it is built here; 0 for none.
    `request_id` and `reservation_id` are for logs. `observed`: its state by the last report.
    """

    uuid: str
    attempt: int
    host: str
    name: str
    flavor: Flavor
    image: Image
    status: InstanceStatus = InstanceStatus.BUILD
    request_id: str = ""
    reservation_id: str = ""
    desired: Desired = field(default_factory=Desired)
    observed: Observed = field(default_factory=Observed)
    leaves_for: int = 0
    moved_from: int = 0


class AgentState(enum.Enum):
    """Report of an agent on an instance. LEFT: it was stopped for its move."""

    ACTIVE = "active"
    LEFT = "left"
    ERROR = "error"
    GONE = "gone"


@dataclass(frozen=True)
class AgentReport:
    """One instance as its agent found it.

    `reason`: a stable code where the state is ERROR, where ACTIVE and not as desired, or where LEFT and not
    stopped, else "". `observed`: what was applied last, and what is so, where ACTIVE.
    `left_for`: number of the placement that it was stopped for, where LEFT.
    """

    uuid: str
    attempt: int
    state: AgentState
    reason: str = ""
    observed: Observed = field(default_factory=Observed)
    left_for: int = 0
