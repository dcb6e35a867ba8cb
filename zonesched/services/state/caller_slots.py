"""Slots for the concurrent calls of one kind in this process, shared fairly by their callers.

No call is ended in favour of another one. So a caller gets another slot only while it holds fewer than are
free: one caller alone has half of them at most, two have a third each, and one slot is always left for the
next caller. Some slots are for parents only, so that users cannot block the calls of the tree.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from zonesched.errors import ZoneBusy

RETRY_S = 1


class CallerSlots:
    """`slots` in total, a third of them for parents only; `calls` names in the plural what they are for."""

    def __init__(self, slots: int, calls: str = "selects") -> None:
        self._slots = max(1, slots)
        self._calls = calls
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """The number of slots in use."""
        with self._lock:
            return self._held.total()

    @contextmanager
    def of_parent(self, user_id: str) -> Iterator[None]:
        """Hold a slot for a call of a parent. Raises ZoneBusy."""
        with self._slot(f"parent {user_id}", for_others=0):
            yield

    @contextmanager
    def of_user(self, user_id: str) -> Iterator[None]:
        """Hold a slot for a call of a user. Raises ZoneBusy."""
        with self._slot(f"user {user_id}", for_others=self._slots // 3):
            yield

    @contextmanager
    def _slot(self, holder: str, for_others: int) -> Iterator[None]:
        with self._lock:
            free = self._slots - self._held.total() - for_others
            if free <= self._held[holder]:
                raise ZoneBusy(f"This zone has too many {self._calls} under way.", RETRY_S)
            self._held[holder] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[holder] -= 1
                # Forget callers without slots.
                self._held += Counter()
