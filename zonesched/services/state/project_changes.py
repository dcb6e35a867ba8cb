"""Numbers that tell a project of changes of its own servers alone."""

from __future__ import annotations

import threading

from zonesched.store import usage
from zonesched.store.store import Store

MAX_PROJECTS = 1000
"""Limit of remembered projects; above it the oldest is forgotten."""


class ProjectChanges:
    """The numbers of each project; they are read again only after something has changed in the zone."""

    def __init__(self, store: Store, zone_uuid: str) -> None:
        self._store = store
        self._zone_uuid = zone_uuid
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def read(self, project_id: str, in_zone: tuple[int, ...]) -> tuple[int, ...]:
        """Return numbers that differ after each change of the project's servers.

        `in_zone`: those of the whole zone, read before.
        """
        with self._lock:
            seen, found = self._known.get(project_id, ((), ()))
        if seen == in_zone:
            return found
        found = self._store.read(lambda tx: usage.changes(tx, self._zone_uuid, project_id))
        with self._lock:
            self._known.pop(project_id, None)
            self._known[project_id] = in_zone, found
            while len(self._known) > MAX_PROJECTS:
                del self._known[next(iter(self._known))]
        return found
