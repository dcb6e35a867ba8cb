"""Place of an affinity group from the view of one zone: on a local host, or in a child zone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Anywhere:
    """No member has a place yet: the next member chooses it for all."""


@dataclass(frozen=True)
class AtHost:
    """The group is on this local host."""

    host_id: str


@dataclass(frozen=True)
class AtChild:
    """The group is in this child zone, which knows the host."""

    child_id: str


ANYWHERE = Anywhere()
TakenPlace = AtHost | AtChild
GroupPlace = Anywhere | TakenPlace
