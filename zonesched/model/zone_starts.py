"""The starts of one zone as a neighbour sees them, pure: two zones that answer as one are told apart by them.

Each start of a zone has a random id, and no start comes back after a later one was seen. Where one does, two
databases answer: a machine was cloned with its zone. Then only a start that was never seen counts again.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_LEFT = 16


@dataclass(frozen=True)
class ZoneStarts:
    """The newest start that was seen, "" for none, and the last ones before it."""

    newest: str = ""
    left: tuple[str, ...] = ()

    def seeing(self, start: str) -> ZoneStarts:
        """Return what is known after an answer; a zone of an older version names no start."""
        if start in ("", self.newest):
            return self
        left = (*self.left, self.newest)[-MAX_LEFT:] if self.newest else self.left
        return ZoneStarts("" if start in left else start, left)

    def is_cloned(self, start: str) -> bool:
        """Tell whether an answer with this start comes from a second zone."""
        return start in self.left
