"""Numbers that tell a project of changes of its own servers alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from zonesched.store import usage
from zonesched.store.store import Store, Transaction

MAX_PROJECTS = 1000
"""Limit of remembered projects; above it the oldest is forgotten."""


@dataclass(frozen=True)
class _Seen:
    """The number of a project's newest change, 0 for none, when the zone's numbers were these."""

    in_zone: tuple[int, ...]
    newest: int


class ProjectChanges:
    """The newest change of each project; only what has changed in the zone since is looked through for it."""

    def __init__(self, store: Store, zone_uuid: str) -> None:
        self._store = store
        self._zone_uuid = zone_uuid
        self._lock = threading.Lock()
        self._known: dict[str, _Seen] = {}

    def read(self, project_id: str, in_zone: tuple[int, ...], watermark: int) -> tuple[int, ...]:
        """Return numbers that differ after each change of the project's servers.

        `in_zone`: those of the whole zone. `watermark`: the low watermark that they were read with.
        """
        with self._lock:
            seen = self._known.get(project_id)
        if seen is None or seen.in_zone != in_zone:
            newest = self._store.read(lambda tx: self._newest(tx, project_id, seen))
            seen = _Seen(in_zone, newest)
            with self._lock:
                self._known.pop(project_id, None)
                self._known[project_id] = seen
                while len(self._known) > MAX_PROJECTS:
                    del self._known[next(iter(self._known))]
        # As of the zone itself: a change may end after one of a higher number.
        return seen.newest, min(seen.newest, watermark)

    def _newest(self, tx: Transaction, project_id: str, seen: _Seen | None) -> int:
        if seen is not None:
            # What had ended by then was seen; the newest may have been pruned since.
            _, seen_until, *_ = seen.in_zone
            later = usage.later_change(tx, self._zone_uuid, project_id, seen_until)
            if later is not None:
                return later
            if not seen.newest or usage.has_change(tx, self._zone_uuid, project_id, seen.newest):
                return seen.newest
        return usage.newest_change(tx, self._zone_uuid, project_id)
