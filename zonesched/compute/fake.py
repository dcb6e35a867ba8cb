"""The fake driver: instances without processes, with configurable times and failure rates."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Sequence
from dataclasses import replace

from zonesched.compute.desired_state import FIRST_OBSERVED, Desired, Observed
from zonesched.compute.driver import DriverSettings
from zonesched.compute.lease import Lease
from zonesched.compute.machine import (
    Built,
    Changed,
    Destroyed,
    DriverEvent,
    Failed,
    Fenced,
    Key,
    Left,
    Wanted,
)
from zonesched.model.console import CONSOLE_TRAIT
from zonesched.seams import Clock

BUILD_FAILED, ACTION_FAILED = "build_failed", "action_failed"


class FakeDriver:
    """Builds take `build_seconds` and actions `action_seconds`.

    Whether one fails depends on seed, uuid, attempt and generation alone. Instances that the zone lists as
    active exist, and their actions are done or have failed: fake instances outlive their agent. They end with
    its lease.
    """

    traits = frozenset({CONSOLE_TRAIT, "COMPUTE_PAUSE", "COMPUTE_SUSPEND"})

    def __init__(self, settings: DriverSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._due: list[tuple[float, Key, int]] = []
        self._building: dict[Key, int] = {}
        self._built: dict[Key, Observed] = {}
        self._applying: dict[Key, Desired] = {}
        self._arriving: dict[Key, Observed] = {}
        self._leaving: dict[Key, int] = {}
        self._fenced: set[Key] = set()
        self._lease = Lease()
        self._happened: list[DriverEvent] = []

    def lease(self) -> Lease:
        return self._lease

    def hold(self, lease: Lease) -> None:
        self._lease = lease

    def found(self) -> Sequence[Key]:
        return ()

    def spawn(self, wanted: Wanted) -> None:
        key = wanted.key
        if key in self._built or key in self._building:
            return
        if wanted.is_active:
            self._built[key] = self._outlived(wanted)
            self._happened.append(Built(key, self._built[key]))
            return
        desired = wanted.desired
        # The rebuilds of an earlier attempt are done: it is built from the present image.
        self._building[key] = desired.rebuilds
        if wanted.moved_from:
            self._arriving[key] = Observed(desired.generation, desired.power, rebuilds=desired.rebuilds)
        self._begin(key, 0, self._settings.build_seconds)

    def apply(self, key: Key, desired: Desired) -> None:
        if key not in self._built or desired.generation <= self._newest(key):
            return
        self._applying[key] = desired
        self._begin(key, desired.generation, self._settings.action_seconds)

    def leave(self, wanted: Wanted) -> None:
        key = wanted.key
        if key not in self._built:
            self._built[key] = self._outlived(wanted)
        self._applying.pop(key, None)
        self._leaving[key] = wanted.leaves_for
        self._fenced.discard(key)
        self._begin(key, 0, self._settings.action_seconds)

    def come_back(self, wanted: Wanted) -> None:
        self._leaving.pop(wanted.key, None)
        self._fenced.discard(wanted.key)
        self._happened.append(Built(wanted.key, self._built[wanted.key]))

    def read_console(self, key: Key) -> bytes:
        if key not in self._built:
            return b""
        observed = self._built[key]
        lines = (f"instance {key.uuid}", f"rebuilds {observed.rebuilds}", f"power {observed.power.value}")
        return "".join(f"{line}\n" for line in lines).encode()

    def destroy(self, key: Key) -> None:
        self._building.pop(key, None)
        self._leaving.pop(key, None)
        self._arriving.pop(key, None)
        self._built.pop(key, None)
        self._applying.pop(key, None)
        self._fenced.discard(key)
        self._happened.append(Destroyed(key))

    def poll(self) -> Sequence[DriverEvent]:
        now = self._clock.monotonic()
        if not self._lease.is_held(now):
            self._fence()
        while self._lease.is_held(now) and self._due and self._due[0][0] <= now:
            _, key, generation = heapq.heappop(self._due)
            if generation == 0 and key in self._building:
                self._happened.append(self._build(key, self._building.pop(key)))
            elif generation == 0 and key in self._leaving:
                self._happened.append(Left(key, self._leaving[key]))
            elif key in self._applying and self._applying[key].generation == generation:
                self._happened.append(self._reach(key, self._applying.pop(key)))
        happened, self._happened = self._happened, []
        return happened

    def next_event_s(self) -> float:
        now = self._clock.monotonic()
        if self._happened:
            return 0.0
        if not self._lease.is_held(now):
            return math.inf
        return max(0.0, min(self._due[0][0] if self._due else math.inf, self._lease.until_s) - now)

    def _fence(self) -> None:
        ended = [key for key in self._built if key not in self._fenced and key not in self._leaving]
        self._fenced.update(ended)
        self._applying.clear()
        self._happened += [Fenced(key) for key in ended]

    def _begin(self, key: Key, generation: int, seconds: float) -> None:
        heapq.heappush(self._due, (self._clock.monotonic() + seconds, key, generation))

    def _newest(self, key: Key) -> int:
        applying = self._applying.get(key)
        return self._built[key].generation if applying is None else applying.generation

    def _build(self, key: Key, rebuilds: int) -> DriverEvent:
        if _chance(self._settings.seed, key) < self._settings.failure_rate:
            return Failed(key, BUILD_FAILED)
        self._built[key] = self._arriving.pop(key, replace(FIRST_OBSERVED, rebuilds=rebuilds))
        return Built(key, self._built[key])

    def _reach(self, key: Key, desired: Desired) -> DriverEvent:
        self._built[key] = self._after(key, self._built[key], desired)
        return Changed(key, self._built[key])

    def _outlived(self, wanted: Wanted) -> Observed:
        """Return the state in which an earlier agent's driver has left an instance."""
        if wanted.desired.generation == wanted.observed.generation:
            return wanted.observed
        return self._after(wanted.key, wanted.observed, wanted.desired)

    def _after(self, key: Key, before: Observed, desired: Desired) -> Observed:
        """Return the state that an action leads to, or that it leaves where it fails."""
        generation = desired.generation
        if _chance(self._settings.seed, key, str(generation)) < self._settings.action_failure_rate:
            return replace(before, generation=generation, reason=ACTION_FAILED)
        return Observed(generation, desired.power, "", max(before.rebuilds, desired.rebuilds))


def _chance(seed: str, key: Key, *names: str) -> float:
    """Return a pseudo-random number from 0 to 1 (exclusive), always the same for the same arguments."""
    digest = hashlib.sha256("/".join((seed, key.uuid, str(key.attempt), *names)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
