"""The parts that all instances of the process driver share, such as the shared folder and the launcher."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zonesched.compute import file_system
from zonesched.compute.desired_state import Desired
from zonesched.compute.instance_folder import InstanceFolder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """Parts that all instances of a driver share: how one is launched, and how long it may take to end.

    `shared`: the folder through which instances move to other machines, if there is one. `remove`: begins to
    remove files.
    """

    root: Path
    shared: Path | None
    launch: Callable[[InstanceFolder], subprocess.Popen[bytes]]
    may_launch: Callable[[], bool]
    remove: Callable[[Sequence[Path]], None]
    monotonic: Callable[[], float]
    stop_s: float

    def reached_shared(self) -> Path:
        """Return the shared folder once its file system has answered. Raises OSError where it does not."""
        if self.shared is None:
            raise FileNotFoundError("there is no shared folder")
        if not file_system.answers(self.shared):
            log.error("the shared folder %s does not answer", self.shared)
            raise TimeoutError(f"{self.shared} does not answer")
        return self.shared

    def source_of(self, uuid: str, arrival: Arrival) -> Path | None:
        """Find the folder that another agent, or this one on another of its hosts, has kept."""
        name = f"{uuid}.{arrival.attempt}"
        if (self.root / name).is_dir():
            return self.root / name
        with suppress(OSError):
            kept = self.reached_shared() / name
            return kept if kept.is_dir() else None
        return None

    def remove_copies_of(self, folder: InstanceFolder) -> None:
        """Begin to remove what was copied for other machines; what is out of reach stays."""
        with suppress(OSError):
            self.remove(folder.put_copies_aside(self.reached_shared()))


@dataclass(frozen=True)
class Arrival:
    """The attempt that an instance comes from on another host, and the state that it is to be in."""

    attempt: int
    desired: Desired
