"""An instance of the process driver that ran, and whose folder is not there when an agent starts.

The file system of the state folder may not be mounted. A zone that heard of a failure would let the instance
go, so that the folder were removed once it is there again. It counts as stopped, and all that is asked of it
is refused, until an agent starts that finds the folder, or it is ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from zonesched.compute.desired_state import Desired, Power
from zonesched.compute.machine import Built, Changed, Destroyed, DriverEvent, Left, Wanted
from zonesched.compute.process_instance import LOST


class MissingInstance:
    """Answers each call of a `ProcessInstance` at once."""

    def __init__(self, wanted: Wanted) -> None:
        self._key = wanted.key
        self._observed = replace(wanted.observed, power=Power.STOPPED, reason=LOST)
        self._happened: list[DriverEvent] = [Built(self._key, self._observed)]
        self.is_gone = False

    def advance(self) -> Sequence[DriverEvent]:
        """Return the events since the last call."""
        happened, self._happened = self._happened, []
        return happened

    def put_off(self) -> Sequence[DriverEvent]:
        return ()

    def next_step_s(self) -> float:
        return 0.0 if self._happened else math.inf

    def apply(self, desired: Desired) -> None:
        """Refuse a state that is newer than the last one."""
        if desired.generation > self._observed.generation:
            self._observed = replace(self._observed, generation=desired.generation)
            self._happened.append(Changed(self._key, self._observed))

    def leave(self, leaves_for: int) -> None:
        """Refuse to move."""
        self._happened = [Left(self._key, leaves_for, LOST)]

    def come_back(self) -> None:
        self._happened = [Built(self._key, self._observed)]

    def end(self) -> None:
        self._happened = [Destroyed(self._key)]
        self.is_gone = True
