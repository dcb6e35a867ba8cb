"""The theme of a seed: one thing that happens in it far more often than in others, so that rare rows are met.

Most seeds have none. A theme changes nothing else: what a seed draws apart from it, it draws without it too.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

from tests.simulation.reach_points import CALL_FAULTS, CALLS, COMMIT_FAULTS, WORK

SHARE = 0.4
OFTEN_AT_CALLS = 0.4
NEARLY_ALWAYS = 0.9
OFTEN_AT_TOUCHES = 0.1
TIMES = 4
"""How often a timed fault comes."""

FAILING = 0.5
"""Share of builds that fail where the confirms are disturbed, so that an answer can tell of a failure."""


@dataclass(frozen=True)
class Theme:
    """`fault`: its kind; `call`: which calls it strikes; `work`: after which commits; "" for neither."""

    fault: str
    call: str = ""
    work: str = ""

    def chance(self, fault: str, call: str, works: Collection[str] = ()) -> float:
        """Return the least chance of a fault at this call, or at a touch of a seam after these commits."""
        if self.work:
            return OFTEN_AT_CALLS if fault == self.fault and self.work in works else 0.0
        if fault == self.fault and call == self.call:
            return OFTEN_AT_CALLS if call else OFTEN_AT_TOUCHES
        # So that what was sealed before a restore comes after it.
        if (self.fault, fault, call) == (OLD_ENTRIES, "call_late", "build"):
            return NEARLY_ALWAYS
        # Whoever is paused between two steps meets a child that is gone.
        return OFTEN_AT_TOUCHES if (self.fault, fault) == ("child_removed", "worker_paused") else 0.0

    @property
    def others(self) -> float:
        """Return how often other faults come: moves need many calls, and old entries a short recovery."""
        return {RESTORED_IN_MOVE: 0.3, OLD_ENTRIES: 0.1}.get(self.fault, 1.0)

    @property
    def is_restored(self) -> bool:
        """Tell whether a zone is put back from a copy."""
        return self.fault in (RESTORED_IN_MOVE, OLD_ENTRIES)

    @property
    def runs(self) -> int:
        """Return how many more runs of actions each boot has: agents that come and go have much to miss."""
        return 5 if self.fault in (*OF_AGENTS, SERVER_LOCKED) or self.call == "desired" else 0

    @property
    def deletes(self) -> int:
        """Return how many more instances of each boot are deleted: early, or while there is much to do.

        Also where hosts shrink, so that the claims that are left fit again.
        """
        is_ending = {self.call, self.work} & {"cancel", "delete", "release"}
        return 3 if is_ending or self.runs or self.fault == "host_shrunk" else 0

    @property
    def shelves(self) -> int:
        """Return how many more instances of each boot are shelved and unshelved."""
        return 3 if self.fault == DELETED_BELOW else 0

    @property
    def last_actions(self) -> int:
        """Return how many instances of each boot are deleted while an action on them is under way."""
        return 3 if self.fault == DELETED_IN_ACTION else 0

    @property
    def failure_rate(self) -> float:
        """Least share of builds that fail."""
        return FAILING if "confirm" in (self.call, self.work) else 0.0


DELETED_IN_ACTION = "deleted_in_action"
DELETED_BELOW = "deleted_below"
DATABASE_FULL = "database_full"
SERVER_LOCKED = "server_locked"
RESTORED_IN_MOVE = "restored_in_move"
OLD_ENTRIES = "old_entries"
HOST_REMOVED = "host_removed"
QUOTA_LOWERED = "quota_lowered"
OF_AGENTS = ("agent_killed", "agent_late", "agent_lost", "host_away", "host_evacuated", "host_drained")
OF_SETTINGS = (
    "host_disabled",
    "host_forced_down",
    "ratio_lowered",
    "flavor_removed",
    QUOTA_LOWERED,
    "rows_repaired",
)
"""Settings that operators change for a while (`tests/simulation/settings.py`)."""

THEMES = (
    *(Theme(fault, call) for fault in CALL_FAULTS for call in CALLS),
    *(Theme(fault) for fault in COMMIT_FAULTS),
    *(Theme(fault, work=work) for fault in COMMIT_FAULTS for work in WORK),
    *(Theme(DELETED_IN_ACTION) for _ in range(3)),
    *(
        Theme(fault)
        for fault in ("child_removed", "child_removed", "host_shrunk", "secret_rotated", "zone_drained")
    ),
    *(Theme(fault) for fault in OF_AGENTS for _ in range(2)),
    *(Theme(fault) for fault in OF_SETTINGS),
)
NONE = Theme("")

LATER_SHARE = 0.05
LATER_THEMES = (Theme(DELETED_BELOW), Theme(DATABASE_FULL), Theme(SERVER_LOCKED), Theme(HOST_REMOVED))
"""Themes that are drawn apart, so that seeds without them keep theirs."""

LAST_SHARE = 0.06
LAST_THEMES = (Theme(RESTORED_IN_MOVE), Theme(RESTORED_IN_MOVE), Theme(OLD_ENTRIES), NONE)
"""Drawn apart from these too; with `NONE` a seed keeps its own."""


def theme_of(seed: int) -> Theme:
    """Return the theme of a seed, mostly `NONE`."""
    last = random.Random(f"theme/last/{seed}")
    if last.random() < LAST_SHARE and (theme := last.choice(LAST_THEMES)) is not NONE:
        return theme
    later = random.Random(f"theme/later/{seed}")
    if later.random() < LATER_SHARE:
        return later.choice(LATER_THEMES)
    draw = random.Random(f"weight/{seed}")
    return draw.choice(THEMES) if draw.random() < SHARE else NONE
