"""Schema of a zone's database: its state, and how it gets the present one.

A database without tables gets those of this version at once; one of an earlier version is migrated.
"""

from __future__ import annotations

import enum
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.errors import ConfigError
from zonesched.store import tables
from zonesched.store.store import Store

MIGRATIONS = Path(__file__).parent / "migrations"

REVISION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False, primary_key=True),
)
"""Alembic's own table: one row with the revision of the database."""

UPGRADE_LOCK = 0x7A6F6E65
"""Key of PostgreSQL's advisory lock under which one process migrates and the others wait."""


class SchemaState(enum.Enum):
    """State of a database's schema.

    EMPTY: no tables yet. INCOMPLETE: tables are gone. AHEAD: written by a later version.
    """

    EMPTY = "empty"
    INCOMPLETE = "incomplete"
    BEHIND = "behind"
    CURRENT = "current"
    AHEAD = "ahead"


def state(store: Store) -> SchemaState:
    """Read the state of the database's schema."""
    return store.read(_state)


def upgrade(store: Store) -> None:
    """Upgrade the schema, all or nothing; concurrent upgrades wait for each other.

    Raises ConfigError for the schema of a later version, or one that lacks tables, and changes nothing.
    """
    store.write(_upgrade)


@cache
def revisions() -> tuple[str, ...]:
    """List the revisions that this version knows, the present one first; their files are looked for once."""
    files = (MIGRATIONS / "versions").glob("[0-9]*.py")
    return tuple(sorted((file.name.partition("_")[0] for file in files), reverse=True))


def migrate(tx: Connection, revision: str) -> None:
    """Run the migrations up to a revision."""
    # Only an earlier version's database needs it, and to import it is a tenth of a zone's start.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    # A percent sign in the path would be taken for an interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = tx
    command.upgrade(config, revision)


def _upgrade(tx: Connection) -> None:
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(UPGRADE_LOCK)))
    match _state(tx):
        case SchemaState.AHEAD:
            raise ConfigError(
                f"Option database_url: the database has the schema revision {_revision(tx)}, of a later"
                f" version of zonesched; this version has revisions up to {revisions()[0]}. Install the later"
                " version, or restore a backup that this version has written.",
                field="database_url",
            )
        case SchemaState.INCOMPLETE:
            lacking = ", ".join(_lacking(tx))
            raise ConfigError(
                f"Option database_url: the database lacks tables of its schema: {lacking}. Restore a backup,"
                " with `zonesched db restore`, or with pg_restore and then `zonesched db restored`.",
                field="database_url",
            )
        case SchemaState.BEHIND:
            migrate(tx, revisions()[0])
        case SchemaState.EMPTY:
            tables.instances.metadata.create_all(tx, checkfirst=False)
            REVISION.create(tx, checkfirst=True)
            tx.execute(sa.insert(REVISION).values(version_num=revisions()[0]))


def _revision(tx: Connection) -> str | None:
    if not sa.inspect(tx).has_table(REVISION.name):
        return None
    return tx.execute(sa.select(REVISION.c.version_num)).scalar_one_or_none()


def _lacking(tx: Connection) -> list[str]:
    """List the tables of this version that the database does not have, and Alembic's where it has no row."""
    there = set(sa.inspect(tx).get_table_names())
    if REVISION.name in there and _revision(tx) is None:
        there.remove(REVISION.name)
    return sorted({*tables.instances.metadata.tables, REVISION.name} - there)


def _state(tx: Connection) -> SchemaState:
    found = _revision(tx)
    if found is None:
        # Where some tables alone have the names of a zone's, they are those of another program.
        return SchemaState.INCOMPLETE if _lacking(tx) == [REVISION.name] else SchemaState.EMPTY
    known = revisions()
    if found == known[0]:
        return SchemaState.INCOMPLETE if _lacking(tx) else SchemaState.CURRENT
    return SchemaState.BEHIND if found in known else SchemaState.AHEAD
