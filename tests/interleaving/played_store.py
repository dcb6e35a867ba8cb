"""A store whose players take one statement at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from tests.interleaving.player import present
from zonesched.store import postgresql
from zonesched.store.postgresql import PipelinedCursor
from zonesched.store.store import Store

T = TypeVar("T")

DEADLOCK_TIMEOUT_MS = 3

_NO_STEPS = ("BEGIN", "SAVEPOINT", "RELEASE")
_OWN_NUMBER = "pg_current_xact_id()"
"""Statements that neither see nor change what others do."""


rewrites: list[Callable[[str], str]] = []
"""Changes of players' statements, for tests of what schedules find."""

written: set[str] = set()
"""Tables that statements of all stores have written since it was cleared; cascades are left out."""

_WRITTEN = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")


@cache
def tables_of(statement: str) -> frozenset[str]:
    """Return the names of the tables that a statement writes, and other words perhaps."""
    return frozenset(_WRITTEN.findall(statement))


class SteppingCursor(PipelinedCursor):
    """Cursor that waits for its player's turn before each statement."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Self:
        if query == "COMMIT":
            return self._commit(query)
        return super().execute(self._step(query), *args, **kwargs)

    def _commit(self, query: str) -> Self:
        """Commit, after the player's turn for that."""
        done, player = super().execute(query), present()
        if player is not None and not player.hears(self.connection.info.backend_pid):
            # Raises the driver's own error.
            super().execute("SELECT 1")
        return done

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> None:
        super().executemany(self._step(query), *args, **kwargs)

    def send(self, query: str, params: Any = None) -> None:
        # A step that waits for a lock shows that it does.
        self.execute(query, params)

    def send_many(self, query: str, params_seq: Any) -> None:
        self.executemany(query, params_seq)

    def _step(self, query: Any) -> Any:
        """Wait for the turn; return the statement to run."""
        player, text = present(), str(query)
        written.update(tables_of(text))
        if player is None:
            return query
        for rewrite in rewrites:
            text = rewrite(text)
        if not text.startswith(_NO_STEPS) and _OWN_NUMBER not in text:
            player.pause(self.connection.info.backend_pid, text)
        return text


class PlayedStore(Store):
    """Store of one process: a read is one step, a transaction that writes has one for each statement."""

    @classmethod
    def of_player(cls, url: str) -> Self:
        """Open the store of a database that only this test uses."""
        # Who closes a circle is told so after this time, which only a superuser may set.
        options = {"options": f"-c deadlock_timeout={DEADLOCK_TIMEOUT_MS}ms"}
        engine = sa.create_engine(url, pool_size=4, hide_parameters=True, connect_args=options)
        sa.event.listen(engine, "do_connect", _connect)
        sa.event.listen(engine, "checkout", _stepping)
        sa.event.listen(engine, "commit", _before_commit)
        return cls(engine)

    def read(self, fn: Callable[[Connection], T]) -> T:
        return self._in_one_step(super().read, fn)

    def look_up(self, fn: Callable[[Connection], T]) -> T:
        return self._in_one_step(super().look_up, fn)

    @staticmethod
    def _in_one_step(read: Callable[[Callable[[Connection], T]], T], fn: Callable[[Connection], T]) -> T:
        player = present()
        if player is None:
            return read(fn)
        # All its statements see what the first one sees.
        player.pause(0, "READ")
        with player.undisturbed():
            return read(fn)

    def _write_once(self, fn: Callable[[Connection], T]) -> T:
        player = present()
        if player is None:
            return super()._write_once(fn)
        with player.writing():
            try:
                return super()._write_once(fn)
            except DBAPIError as error:
                player.conflicts[str(getattr(error.orig, "sqlstate", ""))] += 1
                raise


def _connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
    return postgresql.connect(*arguments, **parameters)


def _stepping(connection: Any, _record: Any, _proxy: Any) -> None:
    connection.cursor_factory = SteppingCursor


def _before_commit(connection: Connection) -> None:
    player = present()
    if player is not None:
        driver: Any = connection.connection.dbapi_connection
        player.pause(driver.info.backend_pid, "COMMIT")
        # As where statements were sent ahead: the commit goes through the cursor.
        driver.begin_pipeline()
