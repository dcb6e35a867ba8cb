"""Clock of the database server, which all processes of a zone share on PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_NOW = sa.select(sa.extract("epoch", sa.func.clock_timestamp()))


def now(tx: Connection) -> float:
    """Return the server's time (UTC epoch seconds)."""
    return float(tx.execute(_NOW).scalar_one())
