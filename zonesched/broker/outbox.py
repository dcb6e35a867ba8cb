"""A bounded outbox: each item waits in it once, and putting one never waits for a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_ITEMS = 20_000
"""Items that wait for a broker that is unavailable or slow; any more are dropped."""


class Outbox(Generic[T]):
    """A bounded set in order; `dropped` counts the items that did not fit."""

    def __init__(self, max_items: int = MAX_ITEMS) -> None:
        self.dropped = 0
        self._max_items = max_items
        self._lock = threading.Lock()
        self._waiting: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, items: Iterable[T]) -> None:
        """Add items; one that waits already stays where it is."""
        with self._lock:
            self._put(items)

    def put_back(self, items: Iterable[T]) -> None:
        """Add items that were taken and not sent, before all that have come since."""
        with self._lock:
            since, self._waiting = self._waiting, dict.fromkeys(items)
            self._put(since)

    def _put(self, items: Iterable[T]) -> None:
        for item in items:
            if item in self._waiting:
                continue
            if len(self._waiting) < self._max_items:
                self._waiting[item] = None
            else:
                self.dropped += 1

    def take(self) -> tuple[T, ...]:
        """Remove and return all items, in the order in which they came."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
        return tuple(taken)
