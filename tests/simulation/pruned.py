"""P10: of boots that ended long ago nothing is left in any table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

RETENTION_S = 30 * 86_400.0
"""Longer than ended boots are kept."""

OF_BOOTS = (
    "reservations",
    "instances",
    "placements",
    "inbound_builds",
    "instance_states",
    "instance_actions",
    "instance_locks",
    "moves",
    "group_places",
    "console_asks",
    "found_instances",
    "named_instances",
)
"""Tables whose rows go with the boots that they are about."""


def left_over(databases: Mapping[str, sqlite3.Connection]) -> Iterator[str]:
    """Find the tables that still have rows, once everything was deleted and `RETENTION_S` are over."""
    for name, rows in databases.items():
        for table in OF_BOOTS:
            if rows.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
                yield f"P10 {name}: {table} has rows of boots that have ended long ago"
