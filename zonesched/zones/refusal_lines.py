"""The lines of the log that say why a child is not called; polls and boots would repeat them for ever."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from zonesched.seams import Clock

REPEAT_S = 600.0
"""Seconds after which a reason that lasts is logged again."""

MAX_REASONS = 3
"""Reasons of one child that are logged within that time: a child chooses how it refuses."""


@dataclass(frozen=True)
class _Said:
    """Reasons that were logged for one child, the first of them at that time of the monotonic clock."""

    since: float
    reasons: frozenset[str]


class RefusalLines:
    """Logs each reason for which a child is not called once in ten minutes."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[str, _Said] = {}

    def warn(self, url: str, line: str) -> None:
        """Log a line on the child at that URL, unless it was logged lately."""
        now = self._clock.monotonic()
        with self._lock:
            self._said = {at: said for at, said in self._said.items() if now - said.since < REPEAT_S}
            said = self._said.get(url, _Said(now, frozenset()))
            if line in said.reasons or len(said.reasons) >= MAX_REASONS:
                return
            self._said[url] = _Said(said.since, said.reasons | {line})
        self._log.warning("%s", line)
