"""A zone's database that is full of hosts before the zone starts: made once, copied for each leaf."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import sqlalchemy as sa

from benchmarks.many_hosts.stored import a_stored_zone
from benchmarks.zone_trees.postgres import Postgres
from benchmarks.zone_trees.tree import SERVICE


class SqliteTemplate:
    """A file that is copied."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self._file = folder / "template.sqlite"
        _fill(folder / "template", f"sqlite:///{self._file}", hosts)

    def database_for(self, name: str, folder: Path) -> str:
        """The URL of a copy, which is another zone."""
        file = folder / f"{name}.sqlite"
        shutil.copy(self._file, file)
        return _another_zone(f"sqlite:///{file}")


class PostgresTemplate:
    """A database of a server that is copied within it."""

    def __init__(self, folder: Path, hosts: int, server: Postgres) -> None:
        self._server = server
        server.create("template_zone")
        _fill(folder / "template", server.url("template_zone"), hosts)

    def database_for(self, name: str, folder: Path) -> str:
        """The URL of a copy, which is another zone."""
        database = name.replace("-", "_")
        self._server.create(database, "template_zone")
        return _another_zone(self._server.url(database))


def _fill(folder: Path, database_url: str, hosts: int) -> None:
    zone = a_stored_zone(folder, hosts, database_url=database_url, service=SERVICE)
    zone.stop()
    if database_url.startswith("sqlite"):
        engine = sa.create_engine(database_url)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        engine.dispose()


def _another_zone(database_url: str) -> str:
    engine = sa.create_engine(database_url)
    with engine.begin() as tx:
        statement = sa.text("UPDATE identity SET zone_uuid = :uuid, host_id_secret = :secret")
        tx.execute(statement, {"uuid": str(uuid.uuid4()), "secret": os.urandom(32).hex()})
    engine.dispose()
    return database_url
