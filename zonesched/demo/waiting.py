"""Wait for a condition, and show on one line what is missing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from zonesched.compute.connection import ZoneCallError
from zonesched.seams import Clock

MIN_COLUMNS = 20


class TookTooLong(Exception):
    """The time limit passed; the message says what was still missing."""


class Progress:
    """One line of progress: rewritten in place on a terminal, printed whenever it changes elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._shown = ""

    def show(self, line: str) -> None:
        """Show `line` in place of the last one.

        It is cut to the width of the terminal: a line that wraps cannot be rewritten and stays.
        """
        if line == self._shown:
            return
        self._shown = line
        sys.stdout.write(f"\r\x1b[K{_cut(line)}" if self._is_terminal else f"{line}\n")
        sys.stdout.flush()

    def end(self) -> None:
        """Keep the line; output that follows starts below it."""
        if self._shown and self._is_terminal:
            sys.stdout.write("\n")
        self._shown = ""


def _cut(line: str) -> str:
    # Some terminals wrap once the last column is written, so it stays empty.
    width = max(MIN_COLUMNS, shutil.get_terminal_size().columns - 1)
    return line if len(line) <= width else line[: width - 3] + "..."


class Waiter:
    """Asks again and again, with a pause in between and a time limit."""

    def __init__(self, clock: Clock, pause: Callable[[float], None], check_alive: Callable[[], None]) -> None:
        self._clock = clock
        self._pause = pause
        self._check_alive = check_alive
        self.progress = Progress()

    def until(self, title: str, missing: Callable[[], str], timeout_s: float, pause_s: float = 0.1) -> None:
        """Wait until `missing` returns "". Raises TookTooLong, and whatever `check_alive` raises.

        A call to a zone that fails in `missing` counts as something missing.
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

    def forever(self, check: Callable[[], None], pause_s: float = 0.5) -> None:
        """Call `check` again and again, until it raises."""
        while True:
            check()
            self._pause(pause_s)

    @staticmethod
    def _lacks(missing: Callable[[], str]) -> str:
        try:
            return missing()
        except ZoneCallError as error:
            return str(error)
