"""The answer of a select to a parent, sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class SealedEntry(NamedTuple):
    """A sealed place for one instance, base64 text; its weight and tie key, lower is better."""

    weight: int
    tie: int
    blob: str


class SealedBundle(NamedTuple):
    """Sealed places for all instances of an affinity request on one host."""

    weight: int
    tie: int
    blobs: Sequence[str]


@dataclass(frozen=True)
class SealedOffer:
    """The answer of a select to a parent.

    `why` (the refusals of hosts) and `runs_out` (the shortages of the offered hosts) have lines of {"filter",
    "code"} and, if the zone reports its counts, "before" and "after". `more`: the zone may have more
    places after `weights`, which are a page, or all that it offers to one select. `database_away`: a zone
    whose offers are missing has said that its database cannot be used now.
    """

    weights: Sequence[SealedEntry]
    alternates: Sequence[SealedEntry]
    bundles: Sequence[SealedBundle]
    complete: bool
    more: bool
    expires_in_s: float
    why: Sequence[Mapping[str, Any]]
    runs_out: Sequence[Mapping[str, Any]]
    database_away: bool = False

    @property
    def entries(self) -> int:
        """Number of sealed entries it contains."""
        return len(self.weights) + len(self.alternates) + sum(len(bundle.blobs) for bundle in self.bundles)
