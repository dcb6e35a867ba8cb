"""Commits that the zone was told of and its database lacks, since another server of PostgreSQL took over."""

from __future__ import annotations

import logging

from zonesched.store import server_history
from zonesched.store.store import Store, Transaction

log = logging.getLogger(__name__)

PAUSE_S = 60.0


class LostCommits:
    """Watch for lost commits, which any process of the zone may have noted.

    `change`: number of a change that the database lacked at the last look; 0 if none is known.
    """

    def __init__(self, store: Store) -> None:
        self.change = 0
        self._store = store

    def look(self) -> float:
        """Read it once, and log it where there is one; return the seconds until the next look."""
        self.change = self._store.read(server_history.lost_change)
        if self.change:
            log.error("%s", server_history.lost(self.change))
        return PAUSE_S


def meet_server(store: Store) -> None:
    """Compare PostgreSQL's server with the one of the zone's last start, and log where they differ."""
    if not store.has_clock or (here := store.look_up(server_history.read)) is None:
        return

    def meet(tx: Transaction) -> server_history.Meeting:
        return server_history.meet(tx, here, None)

    store.write(meet).log()
