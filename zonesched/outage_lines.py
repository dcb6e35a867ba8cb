"""The lines of the log that say that a service beside the zone is away, why, and that it is back."""

from __future__ import annotations

import logging

MAX_REASONS = 3
"""Reasons logged of one outage: texts that differ each time fill no log."""


class OutageLines:
    """Logs each reason for which one service is away once, and once that it is back."""

    def __init__(self, log: logging.Logger, service: str, meanwhile: str) -> None:
        self._log = log
        self._service = service
        self._meanwhile = meanwhile
        self._reasons: set[str] = set()

    def away(self, error: Exception) -> None:
        """Log that the service is away, unless this outage has had that reason before."""
        reason = str(error)
        if reason not in self._reasons and len(self._reasons) < MAX_REASONS:
            self._log.warning("%s is unavailable, %s: %s", self._service, self._meanwhile, reason)
            self._reasons.add(reason)

    def back(self) -> None:
        """Log that the service is back, if it was away."""
        if self._reasons:
            self._log.warning("%s is available again", self._service)
        self._reasons.clear()
