"""Boots until so many instances are claimed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.boot_times.stamps import Decisions, Stamps
from benchmarks.zone_trees.client import ZoneClient

DECIDED_WITHIN_S = 120.0


@dataclass(frozen=True)
class Claimed:
    """One boot: when its client knew that it was decided (seconds since the first call), and its stamps."""

    ended_s: float
    stamps: Stamps


class Claiming:
    """Several clients that boot again and again until all instances are asked for."""

    def __init__(self, decisions: Decisions, total: int, at_once: int, say: Callable[[str], None]) -> None:
        self.boots: list[Claimed] = []
        self._decisions = decisions
        self._left = total
        self._total = total
        self._at_once = at_once
        self._say = say
        self._lock = threading.Lock()
        self._faults: list[Exception] = []
        self._began_at = time.monotonic()

    def run(self, clients: Sequence[ZoneClient], flavor_id: str, check: Callable[[], None]) -> float:
        """Return the seconds from the first call to the last decision. Raises what a client met first."""
        self._began_at = time.monotonic()
        threads = [
            threading.Thread(target=self._boot_all, args=(client, flavor_id), daemon=True)
            for client in clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(1.0)
                check()
        if self._faults:
            raise self._faults[0]
        return max(boot.ended_s for boot in self.boots)

    def _boot_all(self, client: ZoneClient, flavor_id: str) -> None:
        try:
            while not self._faults and (count := self._next()):
                server = {"name": "vm", "flavorRef": flavor_id, "num_instances": count, "min_count": 1}
                told = client.call("POST", "/zones/boot", {"server": server})
                stamps = self._decisions.wait(told["reservation_id"], DECIDED_WITHIN_S)
                self._note(Claimed(time.monotonic() - self._began_at, stamps))
        except Exception as fault:
            self._faults.append(fault)

    def _next(self) -> int:
        with self._lock:
            count = min(self._at_once, self._left)
            self._left -= count
            return count

    def _note(self, boot: Claimed) -> None:
        with self._lock:
            before = sum(one.stamps.claimed for one in self.boots)
            self.boots.append(boot)
            after = before + boot.stamps.claimed
        # A line for each twentieth.
        if after * 20 // self._total > before * 20 // self._total:
            self._say(f"{after} of {self._total} instances after {boot.ended_s:.0f} s")


def rates(boots: Sequence[Claimed], parts: int) -> list[tuple[int, float]]:
    """Instances that were there, and instances claimed a second, for each of so many parts of the run."""
    ordered = sorted(boots, key=lambda boot: boot.ended_s)
    found: list[tuple[int, float]] = []
    there, from_s, size = 0, 0.0, -(-len(ordered) // parts)
    for first in range(0, len(ordered), size):
        some = ordered[first : first + size]
        claimed = sum(boot.stamps.claimed for boot in some)
        found.append((there, round(claimed / (some[-1].ended_s - from_s), 1)))
        there, from_s = there + claimed, some[-1].ended_s
    return found
