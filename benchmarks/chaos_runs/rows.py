"""Rows of a zone's database, read beside the zone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import sqlalchemy as sa


class Site(Protocol):
    """A zone by its name and its database."""

    @property
    def name(self) -> str: ...

    @property
    def database_url(self) -> str: ...


def rows_of(site: Site, *statements: str) -> list[Sequence[Any]]:
    """Read the rows of each statement, all as of one moment."""
    engine = sa.create_engine(site.database_url, poolclass=sa.NullPool)
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        # The driver of SQLite begins no transaction for reads.
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")
        return [connection.execute(sa.text(statement)).all() for statement in statements]
