"""Faults and their rates: drawn from the seed, a few kinds for each, so that none hides the others.

Most kinds strike at a seam call, each with its own chance; the `TIMED` ones come some time or other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection

from tests.simulation.theme import (
    DATABASE_FULL,
    DELETED_BELOW,
    HOST_REMOVED,
    OF_SETTINGS,
    SERVER_LOCKED,
    TIMES,
    theme_of,
)

OF_SERVERS = ("server_ended", "server_lost")
OF_AGENT_IDS = ("agent_doubled", "state_folder_lost")

AT_CALLS = {
    "call_lost": (0.03, 0.35),
    "call_refused": (0.03, 0.2),
    "call_late": (0.03, 0.2),
    "call_slow": (0.05, 0.5),
    "call_twice": (0.05, 0.4),
    "reply_lost": (0.03, 0.35),
    "reply_slow": (0.05, 0.5),
    "call_replayed": (0.05, 0.4),
    "build_forged": (0.2, 0.8),
}
"""Faults of the network: the least and the largest chance that a seed gives a call."""

AT_TOUCHES = {
    "process_killed": (0.002, 0.02),
    "worker_paused": (0.005, 0.04),
    "commit_failed": (0.002, 0.03),
    "commit_unknown": (0.002, 0.03),
}
"""Faults of processes: the same, for a touch of a seam."""

TIMED = (
    "partition",
    "process_frozen",
    "clock_set",
    "key_rotated",
    "secret_rotated",
    "agent_killed",
    "host_away",
    "host_shrunk",
    "child_slow",
    "child_removed",
    "agent_lost",
    "agent_late",
    "host_evacuated",
    "host_drained",
    "zone_drained",
    *OF_SETTINGS,
    "group_removed",
    "user_changed",
    *OF_SERVERS,
    *OF_AGENT_IDS,
    DELETED_BELOW,
    DATABASE_FULL,
    SERVER_LOCKED,
    HOST_REMOVED,
)
"""Faults, and works of operators, that come at some moment of the storm, a few times each."""

OFTEN = (
    "worker_paused",
    "worker_paused",
    "call_late",
    "call_lost",
    "reply_lost",
    "build_forged",
    "process_killed",
    "commit_unknown",
)
"""Two of these are in most seeds: what they bring about is the hardest to get right."""

OF_LOST_AGENTS = ("agent_lost", "agent_late")
"""Drawn apart from the others, so that seeds without them play the same faults as they would alone."""

OF_OPERATORS = ("host_evacuated", "host_drained", "zone_drained")
"""Drawn apart too."""

DRAWN_APART = (
    *OF_LOST_AGENTS,
    *OF_OPERATORS,
    *OF_SETTINGS,
    "group_removed",
    "user_changed",
    *OF_SERVERS,
    *OF_AGENT_IDS,
    DELETED_BELOW,
    DATABASE_FULL,
    SERVER_LOCKED,
    HOST_REMOVED,
)

KINDS = (*AT_CALLS, *AT_TOUCHES, *TIMED)


class Storm:
    """The faults of one seed; nothing strikes unless it is raging. `struck` counts them by kind."""

    def __init__(self, seed: int, note: Callable[[str], None]) -> None:
        self.random = random.Random(f"storm/{seed}")
        self.is_raging = False
        self.struck: Counter[str] = Counter()
        self._note = note
        share = self.random.choice((0.03, 0.08, 0.08, 0.15, 0.15, 0.3))
        shared = [kind for kind in KINDS if kind not in DRAWN_APART]
        drawn = {kind for kind in shared if self.random.random() < share}
        if self.random.random() < 0.8:
            drawn.update(self.random.choices(OFTEN, k=2))
        agents = random.Random(f"agents/{seed}")
        drawn.update(kind for kind in OF_LOST_AGENTS if agents.random() < 0.3)
        operators = random.Random(f"operators/{seed}")
        drawn.update(kind for kind in OF_OPERATORS if operators.random() < 0.25)
        settings = random.Random(f"settings/{seed}")
        drawn.update(kind for kind in OF_SETTINGS if settings.random() < 0.15)
        if random.Random(f"groups/removed/{seed}").random() < 0.08:
            drawn.add("group_removed")
        if random.Random(f"secrets/of/users/{seed}").random() < 0.08:
            drawn.add("user_changed")
        servers = random.Random(f"servers/{seed}")
        drawn.update(kind for kind in OF_SERVERS if servers.random() < 0.2)
        ids = random.Random(f"ids/of/agents/{seed}")
        drawn.update(kind for kind in OF_AGENT_IDS if ids.random() < 0.1)
        if random.Random(f"deleted/below/{seed}").random() < 0.1:
            drawn.add(DELETED_BELOW)
        if random.Random(f"database/full/{seed}").random() < 0.08:
            drawn.add(DATABASE_FULL)
        if random.Random(f"server/locked/{seed}").random() < 0.06:
            drawn.add(SERVER_LOCKED)
        if random.Random(f"host/removed/{seed}").random() < 0.06:
            drawn.add(HOST_REMOVED)
        self.kinds = tuple(kind for kind in KINDS if kind in drawn)
        self._theme = theme_of(seed)
        self._chances = {
            kind: self.random.uniform(*bounds) * self._theme.others
            for kind, bounds in {**AT_CALLS, **AT_TOUCHES}.items()
            if kind in self.kinds
        }

    def strikes(self, kind: str, weight: float = 1.0, call: str = "", works: Collection[str] = ()) -> bool:
        """Draw whether the fault happens here and now.

        `call` names the call that it would strike, `works` the work of the commit right before.
        """
        if not self.is_raging:
            return False
        chance = max(self._chances.get(kind, 0.0) * weight, self._theme.chance(kind, call, works))
        if (not chance and kind not in self._chances) or self.random.random() >= chance:
            return False
        self.count(kind)
        return True

    def moments(self, length_s: float) -> list[tuple[float, str]]:
        """When each of the timed faults comes, in seconds from the storm's start."""
        return [
            (self.random.uniform(0, length_s), kind)
            for kind in TIMED
            if kind in self.kinds
            for _ in range(self.random.randint(1, 2))
        ] + [
            (self.random.uniform(0, length_s), kind)
            for kind in TIMED
            if kind == self._theme.fault
            for _ in range(TIMES)
        ]

    def count(self, kind: str) -> None:
        """A fault of this kind has come."""
        self.struck[kind] += 1
        self._note(kind)
