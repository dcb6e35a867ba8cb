"""Place of an affinity group as one zone sees it."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.place import Place


@dataclass(frozen=True)
class Anywhere:
    """No member has a place yet: the next member chooses it for all."""


ANYWHERE = Anywhere()
GroupPlace = Anywhere | Place
