"""Allowance of changes that each child may report: pure.

An instance changes a few times in its life, so the changes of a child are in proportion to its placements. A
child that reports more is not asked for some time, which doubles each time that it does so again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

FREE_LINES = 10_000
LINES_PER_PLACEMENT = 8
"""Lines that a child may report within WINDOW_S: these, and so many for each placement there."""

WINDOW_S = 600.0
LONGEST_PAUSE_S = 3600.0


@dataclass
class _Account:
    """Lines of a child since `starts_at`, and those allowed when its placements were last counted.

    `pauses`: how often in a row it has exceeded its allowance.
    """

    starts_at: float
    lines: int = 0
    allowed: int = FREE_LINES
    pauses: int = 0


class FeedAllowance:
    """Accounts of all children, in monotonic seconds."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def may_ask(self, child_id: str, now: float) -> bool:
        """Tell whether a child has no pause now."""
        account = self._accounts.get(child_id)
        return account is None or now >= account.starts_at

    def spend(self, child_id: str, lines: int, placements: Callable[[], int], now: float) -> float:
        """Count the lines of a page; return the seconds for which the child is not asked, 0 if it may be.

        `placements` counts those in the child; it is called where a child exceeds its present allowance.
        """
        account = self._accounts.setdefault(child_id, _Account(now))
        if now >= account.starts_at + WINDOW_S:
            account = self._accounts[child_id] = _Account(now)
        account.lines += lines
        if account.lines > account.allowed:
            account.allowed = FREE_LINES + LINES_PER_PLACEMENT * placements()
        if account.lines <= account.allowed:
            return 0.0
        pause_s = min(LONGEST_PAUSE_S, WINDOW_S * float(1 << account.pauses))
        self._accounts[child_id] = _Account(now + pause_s, pauses=account.pauses + 1)
        return pause_s

    def keep(self, child_ids: Collection[str]) -> None:
        """Forget all other children."""
        self._accounts = {id_: self._accounts[id_] for id_ in self._accounts.keys() & set(child_ids)}
