"""Page of a greedy sequence of offers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """At most `entries` entries of a sequence, after its first `skip`."""

    skip: int
    entries: int

    @property
    def end(self) -> int:
        """Number of entries of the sequence up to the end of this page."""
        return self.skip + self.entries


WHOLE = Page(0, 2**31 - 1)
"""The whole sequence: it has at most one entry for each instance."""
