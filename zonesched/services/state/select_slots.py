"""The selects that this process works on for others at the same time, shared by caller.

No select is ended for the sake of another one. So a caller gets another slot only while it holds fewer than
are free: one caller alone has half of them at most, two have a third each, and a slot is always left for
whoever comes next. Some are for parents alone: no number of users keeps the tree from selecting here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from zonesched.errors import ZoneBusy

RETRY_S = 1


class SelectSlots:
    """`slots` in all, a third of them for parents alone."""

    def __init__(self, slots: int) -> None:
        self._slots = max(1, slots)
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @contextmanager
    def of_parent(self, user_id: str) -> Iterator[None]:
        """Hold a slot for a parent's select. Raises ZoneBusy."""
        with self._slot(f"parent {user_id}", for_others=0):
            yield

    @contextmanager
    def of_user(self, user_id: str) -> Iterator[None]:
        """Hold a slot for the dry run of anybody else. Raises ZoneBusy."""
        with self._slot(f"user {user_id}", for_others=self._slots // 3):
            yield

    @contextmanager
    def _slot(self, holder: str, for_others: int) -> Iterator[None]:
        with self._lock:
            free = self._slots - self._held.total() - for_others
            if free <= self._held[holder]:
                raise ZoneBusy("This zone has too many selects under way.", RETRY_S)
            self._held[holder] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[holder] -= 1
                # Keep no names of callers that hold none.
                self._held += Counter()
