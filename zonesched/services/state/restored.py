"""Whether the zone was restored from a copy and acts on none of its rows yet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zonesched.errors import ZoneBusy
from zonesched.store import recovery
from zonesched.store.recovery import Neighbour
from zonesched.store.store import Store

CODE = "zone_restored"
RETRY_AFTER_S = 5


class Restored:
    """Recovery of a zone, as one of its processes sees it: once it has ended, it is not looked for again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._has_ended = False
        self._lock = threading.Lock()
        self._talked_with: set[str] = set()

    @contextmanager
    def talk_with(self, child_id: str) -> Iterator[bool]:
        """Yield whether this thread may talk with a child about a restore: one at a time does."""
        with self._lock:
            is_first = child_id not in self._talked_with
            self._talked_with.add(child_id)
        try:
            yield is_first
        finally:
            if is_first:
                with self._lock:
                    self._talked_with.discard(child_id)

    @property
    def is_under_way(self) -> bool:
        """Tell whether the zone waits for its neighbours and its operator. Reads a row while it does."""
        if not self._has_ended:
            self._has_ended = not self._store.read(recovery.is_under_way)
        return not self._has_ended

    def unheard(self) -> list[Neighbour]:
        """Read which neighbours have not been heard yet; none if the zone waits for its operator alone."""
        return self._store.read(recovery.unheard)

    def check_ended(self) -> None:
        """Raise ZoneBusy while it is under way."""
        if self.is_under_way:
            raise ZoneBusy(
                "This zone was restored from a copy of its database, and compares its rows with what runs;"
                " its operator ends that with `zonesched audit --repair`.",
                RETRY_AFTER_S,
                code=CODE,
            )
