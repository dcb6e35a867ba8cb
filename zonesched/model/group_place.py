"""Place of an affinity group as one zone knows it: on a local host, or in a child zone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Anywhere:
    """No member has a place: the next one chooses it for all."""


@dataclass(frozen=True)
class AtHost:
    """On this host of the zone's own."""

    host_id: str


@dataclass(frozen=True)
class AtChild:
    """In this child zone, which knows where."""

    child_id: str


ANYWHERE = Anywhere()
TakenPlace = AtHost | AtChild
GroupPlace = Anywhere | TakenPlace
