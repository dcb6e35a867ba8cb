"""The contract of a service group: agents send heartbeats to it, and the zone lists its members.

The group only carries heartbeats that would else come over HTTP. A service is up or down by the time of its
last heartbeat in the zone's rows; so a group that cannot be reached takes nobody down at once.
"""

from __future__ import annotations

from typing import Protocol


class GroupUnavailable(Exception):
    """The group cannot be reached now; the message never holds credentials."""


class ServiceGroup(Protocol):
    """A connection to a group, as one of its members or as an observer; used by one thread."""

    is_there: bool

    def beat(self) -> None:
        """Send a heartbeat as a member. Raises GroupUnavailable."""

    def members(self) -> frozenset[str]:
        """Return the names of the members whose heartbeats are recent. Raises GroupUnavailable."""

    def close(self) -> None:
        """Leave the group and close the connection."""


class NoGroup:
    """The group of a zone without one: heartbeats come over HTTP."""

    is_there = False

    def beat(self) -> None:
        """There is nobody to notify."""

    def members(self) -> frozenset[str]:
        return frozenset()

    def close(self) -> None:
        """There is nothing to close."""
