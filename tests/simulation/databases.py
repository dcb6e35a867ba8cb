"""Databases in memory: all connections of this process to one name share its rows until the last one ends."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from tests.builders.stores import sharing_statements
from zonesched.store import store


def connect(name: str) -> sqlite3.Connection:
    """Connect to the database of this name; a new one is empty."""
    return sqlite3.connect(
        f"file:/{name}?vfs=memdb",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=store.STATEMENTS,
    )


class Database:
    """The database of one zone, and the connections to it that no transaction uses.

    All processes of the zone share these: between two touches only one of them is in a transaction. What a
    connection has compiled is there for whichever process uses it next.
    """

    def __init__(self, name: str) -> None:
        self.engine = _engine(name)
        self.idle: list[Connection] = []

    def disconnect(self) -> None:
        """Close all connections that are not in use."""
        while self.idle:
            self.idle.pop().close()
        self.engine.dispose()


def _engine(name: str) -> Engine:
    """Make an engine on the database of this name, set up as the store sets up its own."""
    # Without a limit: a transaction within another one has its own connection.
    made = sa.create_engine(
        "sqlite://",
        creator=lambda: connect(name),
        poolclass=sa.QueuePool,
        pool_use_lifo=True,
        max_overflow=-1,
    )
    sa.event.listen(made, "connect", store._prepare_sqlite)
    return sharing_statements(made)
