"""A server that an admin has locked takes nothing of other users, whatever they ask for at the same time."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator

_LOCKED = (
    "SELECT l.uuid, coalesce((SELECT max(number) FROM instance_actions a WHERE a.uuid = l.uuid), 0)"
    " FROM instance_locks l WHERE l.by_admin"
)
_TAKEN = (
    "SELECT a.number, a.action FROM instance_actions a JOIN users u ON u.id = a.user_id"
    " WHERE a.uuid = ? AND a.number > ? AND u.role = 'member'"
)


class ServerLocks:
    """Looks after each commit at servers that were locked before it."""

    def __init__(self) -> None:
        self._last: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def look(self, zone: str, rows: sqlite3.Connection) -> Iterator[str]:
        for uuid, number in self._last[zone].items():
            for new, action in rows.execute(_TAKEN, (uuid, number)).fetchall():
                yield f"lock {zone}: {uuid} is locked, and took {action} {new} of its user"
        self._last[zone] = dict(rows.execute(_LOCKED).fetchall())

    def forget(self, zone: str) -> None:
        """Begin again with the rows of a copy."""
        self._last.pop(zone, None)
