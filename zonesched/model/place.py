"""Place of an instance or a group as one zone sees it: a host of its own, or a child zone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A host of this zone; its id is a UUID in text form."""

    host_id: str


@dataclass(frozen=True, slots=True)
class ChildPlace:
    """A child zone; which of its hosts it uses is not known here."""

    child_id: str


Place = LocalPlace | ChildPlace
