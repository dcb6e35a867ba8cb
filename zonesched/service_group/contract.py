"""What a zone and its agents need of a service group: an agent says that it lives, the zone asks who does.

The group only carries signs of life that would else come over HTTP. What counts is when the zone's rows say
that a service was last heard of; so a group that is away makes nobody dead.
"""

from __future__ import annotations

from typing import Protocol


class GroupUnavailable(Exception):
    """The group cannot be reached now; the message never holds credentials."""


class ServiceGroup(Protocol):
    """One member of a group, or one who looks at it. Used by one thread."""

    is_there: bool

    def beat(self) -> None:
        """Be a member that lives. Raises GroupUnavailable."""

    def members(self) -> frozenset[str]:
        """The names of those that live. Raises GroupUnavailable."""

    def close(self) -> None:
        """Leave, and give the connection back."""


class NoGroup:
    """Signs of life come over HTTP."""

    is_there = False

    def beat(self) -> None:
        """There is nobody to tell."""

    def members(self) -> frozenset[str]:
        return frozenset()

    def close(self) -> None:
        """There is nothing to give back."""
