"""Connections to PostgreSQL that need few round trips: a statement whose result can wait is sent ahead.

    BEGIN, locks, inserts    sent ahead; the server runs them in order
    a query, or COMMIT       waits for its own result and for all that was sent ahead: one round trip

An error of a statement that was sent ahead is raised where the next one waits. The server then skips all
that follow, COMMIT included.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any, Self

import psycopg

NOTICED = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""libpq's parameters by which a machine that is gone without a word is noticed within 25 seconds.

Its own defaults take more than two hours, for which a statement waits. A slow statement is not cut off.
"""


class PipelinedCursor(psycopg.Cursor[Any]):
    """Cursor of a `PipelinedConnection`; `execute` and `executemany` wait, `send` does not."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        super().execute(query, params, **options)
        self.catch_up()
        return self

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        super().executemany(query, params_seq, **options)
        self.catch_up()

    def send(self, query: str, params: Any = None) -> None:
        """Run a statement without waiting for its result, which is there after `catch_up`."""
        self._pipelined.begin_pipeline()
        super().execute(query, params)

    def send_many(self, query: str, params_seq: Any) -> None:
        """Run a statement once for each of the parameters, as `send` does."""
        self._pipelined.begin_pipeline()
        super().executemany(query, params_seq)

    def catch_up(self) -> None:
        """Wait for the results of all that was sent."""
        self._pipelined.end_pipeline()

    @property
    def _pipelined(self) -> PipelinedConnection:
        connection = self.connection
        assert isinstance(connection, PipelinedConnection)
        return connection


class PipelinedConnection(psycopg.Connection[Any]):
    """Connection with psycopg's pipeline open while something is sent ahead."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = PipelinedCursor
        self.server = ""
        """The start of the server at the other end; another server, or the same one later, has another."""
        self.tells_log = False
        """Whether it tells how far its log is written, as some servers that are like PostgreSQL do not."""
        self._open: AbstractContextManager[psycopg.Pipeline] | None = None

    def wait(self, *args: Any, **options: Any) -> Any:
        """Wait for the server; a connection that it says it ends is closed at once.

        Its end may arrive later than its last word, and until then the connection would seem to live.
        """
        try:
            return super().wait(*args, **options)
        except psycopg.Error as error:
            if error.diag.severity_nonlocalized in _ENDS:
                super().close()
            raise

    def begin_pipeline(self) -> None:
        """Wait for no more results until `end_pipeline`."""
        if self._open is None:
            pipeline = self.pipeline()
            pipeline.__enter__()
            self._open = pipeline

    def end_pipeline(self) -> None:
        """Wait for all results; raises the first error."""
        if self._open is not None:
            pipeline, self._open = self._open, None
            pipeline.__exit__(None, None, None)

    def commit(self) -> None:
        if self._open is None:
            super().commit()
        else:
            self.cursor().execute("COMMIT")

    def rollback(self) -> None:
        self._drop_pipeline()
        super().rollback()

    def close(self) -> None:
        self._drop_pipeline()
        super().close()

    def _drop_pipeline(self) -> None:
        # An error of what is rolled back concerns nobody any more.
        with suppress(psycopg.Error):
            self.end_pipeline()


def connect(*args: Any, **parameters: Any) -> PipelinedConnection:
    """Open a connection on which `BEGIN` begins transactions, and nothing else does.

    `parameters` that the URL has go before those of NOTICED.
    """
    connection = PipelinedConnection.connect(*args, autocommit=True, **{**NOTICED, **parameters})
    ((connection.server,),) = connection.execute(_STARTED).fetchall()
    connection.tells_log = _tells_log(connection)
    return connection


def _tells_log(connection: PipelinedConnection) -> bool:
    try:
        connection.execute(_WRITTEN)
    except psycopg.Error:
        if connection.closed:
            raise
        return False
    return True


_WRITTEN = "SELECT pg_current_wal_insert_lsn() WHERE NOT pg_is_in_recovery()"
"""A standby, which writes none, tells it once it has taken over."""

_ENDS = ("FATAL", "PANIC")
"""Severities of the last words to a session (PostgreSQL's documentation, table 19.2)."""

_STARTED = "SELECT extract(epoch FROM pg_postmaster_start_time())::text"
