"""A parent's quota of instances is exact: what it has grows no further once that many count."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

READ_AGAIN_S = 11.0
"""Longest time that a process counts with a limit that an operator has changed."""

COUNTED = ("BUILD", "ACTIVE", "UNKNOWN", "OFFLOADED")

_LIMITS = "SELECT subject, hard_limit FROM quota_overrides WHERE name = 'parent_instances'"
_HAVE = f"SELECT caller_id, count(*) FROM instances WHERE status IN {COUNTED} GROUP BY caller_id"


@dataclass(frozen=True)
class _Limit:
    """Largest number of instances since a moment; None for more than any seed asks for."""

    since: float
    most: int | None


class Quotas:
    """Looks at the instances of parents after each commit, beside the limits that were last in force."""

    def __init__(self) -> None:
        self._had: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._limits: defaultdict[tuple[str, str], list[_Limit]] = defaultdict(lambda: [_Limit(0.0, None)])

    def look(self, zone: str, rows: sqlite3.Connection, now: float) -> Iterator[str]:
        limits = dict(rows.execute(_LIMITS).fetchall())
        have = dict(rows.execute(_HAVE).fetchall())
        for parent in limits.keys() | {of for in_zone, of in self._limits if in_zone == zone}:
            known = self._limits[zone, parent]
            if limits.get(parent) != known[-1].most:
                known.append(_Limit(now, limits.get(parent)))
            while len(known) > 1 and known[1].since < now - READ_AGAIN_S:
                del known[0]
            count, had = have.get(parent, 0), self._had[zone].get(parent, 0)
            if count > had and all(one.most is not None and count > one.most for one in known):
                yield f"quota {zone}: {parent} has {count} instances of {limits[parent]}"
        self._had[zone] = have

    def forget(self, zone: str) -> None:
        """Begin again with the rows of a copy."""
        self._had.pop(zone, None)
        for key in [key for key in self._limits if key[0] == zone]:
            del self._limits[key]
