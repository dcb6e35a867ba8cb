"""A parent's quota of instances is exact: what it has grows no further once that many count."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

READ_AGAIN_S = 11.0
"""Longest time that a process counts with a limit that an operator has changed."""

COUNTED = ("BUILD", "ACTIVE", "UNKNOWN", "OFFLOADED")

_LIMITS = "SELECT subject, hard_limit FROM quota_overrides WHERE name = 'parent_instances'"
_PARENTS = "SELECT id FROM users WHERE role = 'parent'"
_HAVE = f"SELECT caller_id, count(*) FROM instances WHERE status IN {COUNTED} GROUP BY caller_id"


@dataclass(frozen=True)
class _Limit:
    """Largest number of instances since a moment; None for more than any seed asks for."""

    since: float
    most: int | None


class Quotas:
    """Looks at the instances of parents after each commit, beside the limits that were last in force.

    `options`: by zone, the limit of all its parents, where it has one that a seed can reach.
    """

    def __init__(self, options: Mapping[str, int]) -> None:
        self._options = options
        self._had: dict[str, dict[str, int]] = {}
        self._limits: dict[tuple[str, str], list[_Limit]] = {}

    def look(self, zone: str, rows: sqlite3.Connection, now: float) -> Iterator[str]:
        limits, option = dict(rows.execute(_LIMITS).fetchall()), self._options.get(zone)
        have = dict(rows.execute(_HAVE).fetchall())
        for (parent,) in rows.execute(_PARENTS).fetchall():
            limit = limits.get(parent, option)
            known = self._limits.setdefault((zone, parent), [_Limit(0.0, option)])
            if limit != known[-1].most:
                known.append(_Limit(now, limit))
            while len(known) > 1 and known[1].since < now - READ_AGAIN_S:
                del known[0]
            count = have.get(parent, 0)
            has_grown = count > self._had.get(zone, have).get(parent, 0)
            if has_grown and all(one.most is not None and count > one.most for one in known):
                yield f"quota {zone}: {parent} has {count} instances of {limit}"
        self._had[zone] = have

    def forget(self, zone: str) -> None:
        """Begin again with the rows of a copy."""
        self._had.pop(zone, None)
        for key in [key for key in self._limits if key[0] == zone]:
            del self._limits[key]
