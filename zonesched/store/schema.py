"""Schema of a zone's database: its state and its upgrade."""

from __future__ import annotations

import enum
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from zonesched.errors import ConfigError
from zonesched.store.store import Store

MIGRATIONS = Path(__file__).parent / "migrations"

UPGRADE_LOCK = 0x7A6F6E65
"""Key of PostgreSQL's advisory lock under which one process migrates and the others wait."""


class SchemaState(enum.Enum):
    """State of a database's schema. EMPTY: no tables yet. AHEAD: written by a later version."""

    EMPTY = "empty"
    BEHIND = "behind"
    CURRENT = "current"
    AHEAD = "ahead"


def state(store: Store) -> SchemaState:
    """Read the state of the database's schema."""
    return store.read(_state)


def upgrade(store: Store) -> None:
    """Upgrade the schema, all or nothing; concurrent upgrades wait for each other.

    Raises ConfigError for the schema of a later version, and changes nothing.
    """
    store.write(_upgrade)


@cache
def revisions() -> tuple[str, ...]:
    """List all revisions of this version, newest first; the package's files are read once."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _upgrade(tx: Connection) -> None:
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(UPGRADE_LOCK)))
    match _state(tx):
        case SchemaState.AHEAD:
            raise ConfigError(
                f"Option database_url: the database has the schema revision {_revision(tx)}, of a later"
                f" version of zonesched; this version has revisions up to {revisions()[0]}. Install the later"
                " version, or restore a backup that this version has written."
            )
        case SchemaState.EMPTY | SchemaState.BEHIND:
            config = _config()
            config.attributes["connection"] = tx
            command.upgrade(config, "head")


def _revision(tx: Connection) -> str | None:
    return MigrationContext.configure(tx).get_current_revision()


def _state(tx: Connection) -> SchemaState:
    found = _revision(tx)
    if found is None:
        return SchemaState.EMPTY
    known = revisions()
    if found == known[0]:
        return SchemaState.CURRENT
    return SchemaState.BEHIND if found in known else SchemaState.AHEAD


def _config() -> Config:
    config = Config()
    # A percent sign in the path would be taken for an interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
