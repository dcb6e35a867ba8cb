"""Trace of events, in order: a hash that two runs of one seed must share, and the lines if wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable


class Trace:
    """Lines go into the hash, and to `show` where there is one."""

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._hash = hashlib.sha256()
        self._show = show

    def note(self, now: float, who: str, what: str) -> None:
        """One event, at `now` simulated seconds."""
        line = f"{now:.6f} {who}: {what}"
        self._hash.update(line.encode())
        if self._show is not None:
            self._show(line)

    def remark(self, now: float, text: str) -> None:
        """A line that is shown and is no part of the hash."""
        if self._show is not None:
            self._show(f"{now:.6f} # {text}")

    @property
    def digest(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()
