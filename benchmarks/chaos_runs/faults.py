"""Faults: each picks a healthy part, breaks it, and says how and when it is repaired."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.builders.private_servers import Server

from .link import Link, Way
from .world import Part, World, repaired

PAUSE_S = (0.1, 0.8)
"""From one fault to the next."""


@dataclass(frozen=True)
class Injury:
    """A part that is spoilt until then (monotonic seconds), and how it is repaired."""

    part: str
    until: float
    repair: Callable[[], None]


class Faults:
    """Spoils one thing after another; several are spoilt at one time, each in one way."""

    def __init__(self, world: World, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._world = world
        self._rng = random.Random(seed)
        self._injuries: list[Injury] = []
        self._kinds: Mapping[str, Callable[[], Injury | None]] = {
            "kill_zone": self._kill_zone,
            "kill_worker": self._kill_worker,
            "stop_zone": self._stop_zone,
            "pause_zone": self._pause_zone,
            "kill_agent": self._kill_agent,
            "pause_agent": self._pause_agent,
            "cut_link": lambda: self._spoil_link(Way.CUT),
            "hang_link": lambda: self._spoil_link(Way.HANG),
            "truncate_link": lambda: self._spoil_link(Way.TRUNCATE),
        }
        if world.server is not None:
            self._kinds = {**self._kinds, "restart_database": self._restart_database}
        if world.broker is not None:
            broken = {"restart_broker": self._restart_broker, "hang_broker": self._hang_broker}
            self._kinds = {**self._kinds, **broken}

    def run(self, count: int, look_around: Callable[[], None]) -> None:
        """So many faults, then everything repaired."""
        kinds = sorted(self._kinds)
        left = count
        while left:
            kind = self._rng.choice(kinds)
            injury = self._kinds[kind]()
            if injury is not None:
                self._injuries.append(injury)
                self.counts[kind] += 1
                left -= 1
            time.sleep(self._rng.uniform(*PAUSE_S))
            self._repair(time.monotonic())
            look_around()
        self._repair(float("inf"))

    def _repair(self, now: float) -> None:
        due = [injury for injury in self._injuries if injury.until <= now]
        self._injuries = [injury for injury in self._injuries if injury.until > now]
        for injury in due:
            injury.repair()
        self._world.watch({injury.part for injury in self._injuries})

    def _well(self, parts: Sequence[Part]) -> Part | None:
        spoilt = {injury.part for injury in self._injuries}
        well = [part for part in parts if part.name not in spoilt]
        return self._rng.choice(well) if well else None

    def _until(self, low_s: float, high_s: float) -> float:
        return time.monotonic() + self._rng.uniform(low_s, high_s)

    # -- the kinds -----------------------------------------------------------------------------------------

    def _kill_zone(self) -> Injury | None:
        return self._killed(self._world.zones)

    def _kill_agent(self) -> Injury | None:
        return self._killed(self._world.agents)

    def _killed(self, parts: Sequence[Part]) -> Injury | None:
        part = self._well(parts)
        if part is None:
            return None
        part.end()
        return Injury(part.name, self._until(0.2, 2.0), part.start)

    def _kill_worker(self) -> Injury | None:
        part = self._well(self._world.zones)
        if part is None or not part.kill_a_child():
            return None
        return Injury(part.name, self._until(0.5, 1.0), lambda: None)

    def _stop_zone(self) -> Injury | None:
        part = self._well(self._world.zones)
        if part is None:
            return None
        part.end_in_order()
        return Injury(part.name, self._until(0.2, 1.0), part.start)

    def _pause_zone(self) -> Injury | None:
        # Up to longer than a lease and a call: it wakes to find that others have gone on.
        return self._paused(self._world.zones, 8.0)

    def _pause_agent(self) -> Injury | None:
        return self._paused(self._world.agents, 4.0)

    def _paused(self, parts: Sequence[Part], longest_s: float) -> Injury | None:
        part = self._well(parts)
        if part is None:
            return None
        part.signal(signal.SIGSTOP)
        return Injury(part.name, self._until(0.3, longest_s), lambda: part.signal(signal.SIGCONT))

    def _spoil_link(self, way: Way) -> Injury | None:
        spoilt = {injury.part for injury in self._injuries}
        well = [name for name in sorted(self._world.links) if f"link to {name}" not in spoilt]
        if not well:
            return None
        name = self._rng.choice(well)
        link: Link = self._world.links[name]
        link.set(way, truncate_after=self._rng.choice((0, 9, 150, 400)))
        return Injury(f"link to {name}", self._until(0.3, 4.0), lambda: repaired(link))

    def _restart_database(self) -> Injury | None:
        server = self._world.server
        if server is None or any(injury.part == "database" for injury in self._injuries):
            return None
        server.stop()
        return Injury("database", self._until(0.1, 1.0), server.start)

    def _restart_broker(self) -> Injury | None:
        broker = self._well_broker()
        if broker is None:
            return None
        broker.kill()
        return Injury("broker", self._until(0.1, 3.0), broker.start)

    def _hang_broker(self) -> Injury | None:
        broker = self._well_broker()
        if broker is None:
            return None
        broker.hang()
        return Injury("broker", self._until(0.3, 6.0), broker.go_on)

    def _well_broker(self) -> Server | None:
        is_spoilt = any(injury.part == "broker" for injury in self._injuries)
        return None if is_spoilt else self._world.broker
