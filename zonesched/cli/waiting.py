"""Waiting for something to become true, with words about what is still missing."""

from __future__ import annotations

import sys
from collections.abc import Callable

from zonesched.compute.connection import ZoneCallError
from zonesched.seams import Clock


class TookTooLong(Exception):
    """What was waited for did not come in time; the message says what was missing last."""


class Progress:
    """One line that says what is going on: rewritten on a terminal, printed when it changes elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._shown = ""

    def show(self, line: str) -> None:
        """Say this now."""
        if line == self._shown:
            return
        self._shown = line
        sys.stdout.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
        sys.stdout.flush()

    def end(self) -> None:
        """The line stays as it is; what is printed next stands below it."""
        if self._shown and self._is_terminal:
            sys.stdout.write("\n")
        self._shown = ""


class Waiter:
    """Asks again and again, with a pause between and a limit to it all."""

    def __init__(self, clock: Clock, pause: Callable[[float], None], check_alive: Callable[[], None]) -> None:
        self._clock = clock
        self._pause = pause
        self._check_alive = check_alive
        self.progress = Progress()

    def until(self, title: str, missing: Callable[[], str], timeout_s: float, pause_s: float = 0.1) -> None:
        """Wait until `missing` returns "". Raises TookTooLong, and what `check_alive` raises.

        A call to a zone that fails meanwhile counts as something that is missing.
        """
        end = self._clock.monotonic() + timeout_s
        try:
            while lacks := self._lacks(missing):
                self.progress.show(f"{title}: {lacks}")
                self._check_alive()
                if self._clock.monotonic() >= end:
                    raise TookTooLong(f"{title}: after {timeout_s:g} s still {lacks}")
                self._pause(pause_s)
            self.progress.show(f"{title}: done")
        finally:
            self.progress.end()

    def forever(self, look: Callable[[], None], pause_s: float = 0.5) -> None:
        """Look again and again, until `look` raises."""
        while True:
            look()
            self._pause(pause_s)

    @staticmethod
    def _lacks(missing: Callable[[], str]) -> str:
        try:
            return missing()
        except ZoneCallError as error:
            return str(error)
