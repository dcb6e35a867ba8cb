"""PostgreSQL's servers that a process has met; each start of one counts as another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from zonesched.store import identity, server_history
from zonesched.store.outcomes import Numbered, Outcome
from zonesched.store.prepared import run_text


class MetServers:
    """The server of the last connection, and the one whose changes have an epoch of their own.

    A server that took over without the last commits gives the numbers of their changes again.
    """

    def __init__(self) -> None:
        self.changes = 0
        """How often a connection led to another server than the one before."""
        self._last = self._of_epoch = ""
        self._last_commit: Numbered | None = None

    def note(self, connection: Any, _record: Any) -> None:
        """Note the server of a new connection of the driver."""
        # The zone itself begins an epoch when it starts.
        self._of_epoch = self._of_epoch or connection.server
        self.changes += self._last not in ("", connection.server)
        self._last = connection.server

    def committed(self, done: Sequence[Outcome]) -> None:
        """Note the outcomes of a transaction that this process was told of."""
        for one in done:
            if isinstance(one, Numbered):
                last = self._last_commit
                self._last_commit = one if last is None or last.written < one.written else last

    def begin_epoch(self, tx: Connection) -> None:
        """Begin an epoch, in a transaction of its own, where this process has not written to the server.

        Note there whether the server lacks commits that this process was told of.
        """
        connection: Any = tx.connection.dbapi_connection
        server: str = connection.server
        if server == self._of_epoch:
            return
        last, here = self._last_commit, server_history.read(tx)
        with tx.begin():
            run_text(tx, "BEGIN")
            identity.begin_epoch_of_server(tx, server)
            met = here and server_history.meet(tx, here, last)
        self._of_epoch, self._last_commit = server, None
        if met:
            met.log()
