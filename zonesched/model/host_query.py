"""Queries of the hosts of a zone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostQuery:
    """Query of hosts in order of id: those after the host `after` with `text` in their names.

    A `limit` of 0, or a text of "", leaves it out.
    """

    text: str = ""
    after: str = ""
    limit: int = 0
