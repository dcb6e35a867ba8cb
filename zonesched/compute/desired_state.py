"""Desired and observed states of an instance, as zone and agent exchange them.

Each accepted action raises the generation of the desired state. Only the newest one is sent: an agent that
was away acts on the last of several.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Power(enum.Enum):
    """Power state of an instance."""

    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"
    SUSPENDED = "suspended"


class RebootType(enum.Enum):
    """SOFT asks the instance to end first; HARD ends it at once."""

    SOFT = "SOFT"
    HARD = "HARD"


@dataclass(frozen=True)
class Desired:
    """State that the zone wants.

    `reboots` grows with each reboot; one that is not larger than the last is none. `rebuilds` counts those of
    the instance since it was created; `image` is the one to rebuild it from.
    """

    generation: int = 0
    power: Power = Power.RUNNING
    reboots: int = 0
    reboot_type: RebootType = RebootType.SOFT
    rebuilds: int = 0
    image: Mapping[str, Any] = field(default_factory=dict)


FIRST_DESIRED = Desired()
"""Desired state of a new instance."""


@dataclass(frozen=True)
class Observed:
    """State of a built instance.

    `generation`: newest desired state that the driver has acted on. `reason`: a stable code where that state
    was not reached, or where the instance ended by itself, else "". `rebuilds`: how many are done.
    """

    generation: int = 0
    power: Power = Power.RUNNING
    reason: str = ""
    rebuilds: int = 0


FIRST_OBSERVED = Observed()
"""State of an instance that was just built."""
