"""Signals that come before this program has its own handlers for them: its modules alone take a second."""

from __future__ import annotations

import signal


class EarlySignals:
    """Keeps signals that would end a process which has no handlers for them yet."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        for number in (signal.SIGHUP, signal.SIGUSR2):
            signal.signal(number, lambda number, frame: self.numbers.append(number))
