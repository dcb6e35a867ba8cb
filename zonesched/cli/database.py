"""`zonesched db`: a zone's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from zonesched import conf
from zonesched.cli.config_files import config_files
from zonesched.cli.group import CommandGroup
from zonesched.errors import ConfigError
from zonesched.seams import SystemClock
from zonesched.store import copies, schema
from zonesched.store.schema import SchemaState
from zonesched.store.store import Store, StoreError

NEXT = "start the zone, and run `zonesched audit` until it waits for nobody, then `zonesched audit --repair`"


@click.group(cls=CommandGroup)
def db() -> None:
    """Manage a zone's database, and copies of it."""


@db.command()
@config_files
def upgrade(files: tuple[str, ...]) -> None:
    """Upgrade the database of a configuration to this version's schema."""
    store = Store.open(conf.load(files).database_url)
    try:
        with _reached():
            before = schema.state(store)
            schema.upgrade(store)
    finally:
        store.close()
    click.echo(
        "the schema was current"
        if before is SchemaState.CURRENT
        else f"the schema was {before.value}; upgraded"
    )


@db.command()
@click.argument("copy", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@config_files
def backup(copy: Path, files: tuple[str, ...]) -> None:
    """Write a consistent copy of an SQLite database to a new FILE (mode 0600), while the zone runs."""
    database = copies.file_of(conf.load(files).database_url)
    made = copies.back_up(database, copy)
    click.echo(f"copied the database of the zone {made.zone_uuid} to {copy}")


@db.command()
@click.argument("copy", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--other-zone", is_flag=True, help="Replace the database of another zone.")
@config_files
def restore(copy: Path, other_zone: bool, files: tuple[str, ...]) -> None:
    """Replace an SQLite database by the copy in FILE; refused while any process uses the database.

    Agents, child and parent zones go on meanwhile. The zone then compares its rows with what they have.
    """
    database = copies.file_of(conf.load(files).database_url)
    found = copies.restore(database, copy, _new_incarnation(), is_other_zone_allowed=other_zone)
    click.echo(f"restored the database of the zone {found.zone_uuid} from {copy}")
    click.echo(NEXT)


@db.command()
@config_files
def restored(files: tuple[str, ...]) -> None:
    """Tell a zone that other tools, such as pg_restore, have put its database back from a copy.

    Run it before the zone's next start; refused while any process uses an SQLite database.
    """
    url = conf.load(files).database_url
    copies.check_unused(url)
    with _reached():
        copies.mark_restored(url, _new_incarnation())
    click.echo("the zone begins its next start with a recovery")
    click.echo(NEXT)


@contextmanager
def _reached() -> Iterator[None]:
    """Raise ConfigError where the database itself fails, as a zone's start does."""
    try:
        yield
    except StoreError as error:
        raise ConfigError(
            f"Option database_url: the database cannot be used: {error.orig}.", field="database_url"
        ) from error


def _new_incarnation() -> str:
    return SystemClock().random_bytes(16).hex()
