"""Answers between zones, compared with the rows of both sides.

No zone takes an instance for built in a child before that child does. What a child has once said to be gone,
after a cancel, is never held there again.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping

UNBUILT = ("intended", "held", "confirming", "cancelling", "gone")
"""States of a place at which nothing was built, nor ever has been."""


class Confirms:
    """P2 at every commit, between a zone and its children."""

    def __init__(self, zones: Mapping[str, sqlite3.Connection], suspects: Container[str] = ()) -> None:
        self._zones = zones
        self._suspects = suspects
        self._seen: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)

    def forgive(self, child: str) -> None:
        """Take what parents believe of a child for true that was put back from a copy."""
        for zone, rows in self._zones.items():
            self._seen[zone].update(
                rows.execute(
                    "SELECT p.uuid, p.number FROM placements p JOIN children c ON c.id = p.child_id"
                    " WHERE p.kind = 'child' AND c.name = ?",
                    (child,),
                )
            )

    def look(self, zone: str, forgetful: Container[str] = ()) -> Iterator[str]:
        for uuid, number, child in self._zones[zone].execute(
            "SELECT p.uuid, p.number, c.name FROM placements p JOIN children c ON c.id = p.child_id"
            " WHERE p.kind = 'child' AND p.state = 'confirmed'"
        ):
            if (uuid, number) in self._seen[zone] or child in self._suspects or child in forgetful:
                continue
            self._seen[zone].add((uuid, number))
            states = self._zones[child].execute(
                "SELECT p.state FROM inbound_builds b"
                " JOIN users u ON u.id = b.caller_id AND u.name = 'parent'"
                " JOIN placements p ON p.uuid = b.uuid AND p.number = b.number"
                " WHERE b.uuid = ? AND b.attempt = ?",
                (uuid, number),
            )
            (state,) = states.fetchone() or ("unknown",)
            if state in (*UNBUILT, "unknown"):
                yield f"P2 {zone}: {uuid} is confirmed in {child}, where it is {state}"
