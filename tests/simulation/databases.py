"""Databases in memory: all connections of this process to one name share its rows until the last one ends."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa
from sqlalchemy.engine import Engine

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


def engine(name: str) -> Engine:
    """Make an engine on the database of this name, set up as the store sets up its own."""
    # Without a limit: processes that have died keep their connections.
    made = sa.create_engine(
        "sqlite://",
        creator=lambda: connect(name),
        poolclass=sa.QueuePool,
        pool_use_lifo=True,
        max_overflow=-1,
    )
    sa.event.listen(made, "connect", store._prepare_sqlite)
    return sharing_statements(made)
