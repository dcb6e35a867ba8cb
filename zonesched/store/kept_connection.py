"""Connections to SQLite that stay open between transactions."""

from __future__ import annotations

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

MAX_IDLE = 16
"""Limit of connections that wait for a transaction, as many as the pool keeps."""


class KeptConnection:
    """Gives one of SQLite's connections to a block, and ends the transaction that the block leaves open.

    No generator: that would take as long as an empty transaction.
    """

    __slots__ = ("_connection", "_engine", "_idle")

    def __init__(self, engine: Engine, idle: list[Connection]) -> None:
        self._engine = engine
        self._idle = idle

    def __enter__(self) -> Connection:
        try:
            self._connection = self._idle.pop()
        except IndexError:
            self._connection = self._engine.connect()
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        connection = self._connection
        may_stay = False
        try:
            # What SQLAlchemy has begun by itself, then what only the driver knows of.
            connection.rollback()
            connection.connection.rollback()
            # Also after a refusal, which is the caller's, but not where the driver has failed.
            failed = kind is not None and issubclass(kind, DBAPIError)
            may_stay = not failed and len(self._idle) < MAX_IDLE
        finally:
            # The pool would check it each time, which takes longer than a short transaction.
            if may_stay:
                self._idle.append(connection)
            else:
                connection.close()
