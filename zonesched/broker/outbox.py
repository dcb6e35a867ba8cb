"""What waits to be sent: each thing once, never more than a bound, so that nobody ever waits for a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

MOST = 20_000
"""Hints that wait for a broker that is away or slow; what comes above is dropped."""


class Outbox(Generic[T]):
    """A bounded set in order; putting never blocks. `dropped` counts what found no room."""

    def __init__(self, most: int = MOST) -> None:
        self.dropped = 0
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[T, None] = {}

    def put(self, items: Iterable[T]) -> None:
        """Let these be sent; one that waits already is sent once."""
        with self._lock:
            for item in items:
                if item in self._waiting:
                    continue
                if len(self._waiting) < self._most:
                    self._waiting[item] = None
                else:
                    self.dropped += 1

    def take(self) -> tuple[T, ...]:
        """All that waits, in the order it came; it waits no longer."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
        return tuple(taken)
