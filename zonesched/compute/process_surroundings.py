"""What an instance of the process driver shares with the others, and where it comes from."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zonesched.compute import launcher
from zonesched.compute.desired_state import Desired
from zonesched.compute.instance_folder import InstanceFolder


@dataclass(frozen=True)
class Surroundings:
    """Parts that all instances of a driver share: how one is launched, and how long it may take to end.

    `shared`: the folder through which instances move to other machines, if there is one.
    """

    root: Path
    shared: Path | None
    launch: Callable[[InstanceFolder], subprocess.Popen[bytes]]
    may_launch: Callable[[], bool]
    monotonic: Callable[[], float]
    stop_s: float

    def source_of(self, uuid: str, arrival: Arrival) -> Path | None:
        """Find the folder that another agent, or this one on another of its hosts, has kept."""
        roots = (self.root, self.shared)
        paths = [root / f"{uuid}.{arrival.attempt}" for root in roots if root is not None]
        return next((path for path in paths if path.is_dir()), None)

    @staticmethod
    def was_refused(launched: subprocess.Popen[bytes] | None) -> bool:
        """Tell whether a launcher came after the end of the agent's lease."""
        return launched is not None and launched.poll() == launcher.LAPSED


@dataclass(frozen=True)
class Arrival:
    """The attempt that an instance comes from on another host, and the state that it is to be in."""

    attempt: int
    desired: Desired
